// Interrupt: handles Ctrl-C. The first one requests a clean stop, a second one ends the program at
// once (exit code 1). SIGTERM and SIGHUP (a closed terminal) count as Ctrl-C; a SIGHUP that is
// ignored, as under nohup, stays ignored.
//
// At most one object per process at a time, because signal handlers are global. requested() is safe
// from any thread.
#pragma once

#include <array>
#include <csignal>

namespace clora {

class Interrupt {
 public:
  // Installs the handlers. `first_words`, which must be a string literal, is written to stderr at
  // the first signal.
  explicit Interrupt(const char* first_words);
  // Restores the previous handlers.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const noexcept;
  // Clears the record of signals received.
  void forget() noexcept;

 private:
  std::array<struct sigaction, 3> former_{};
};

}  // namespace clora
