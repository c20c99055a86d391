// Ctrl-C: the first asks the work to come to a good end, a second one ends the program at once
// (exit code 1). SIGTERM and SIGHUP (a terminal that is closed) count as Ctrl-C; a SIGHUP that is
// ignored, as under nohup, stays so.
//
// One object a program at a time: signal handlers are global. asked() may be called from anywhere.
#pragma once

#include <array>
#include <csignal>

namespace clora {

class Interrupt {
 public:
  // Takes the signals over. `first_words` is written to the error stream at the first one; must be
  // a string literal.
  explicit Interrupt(const char* first_words);
  // Puts the former handlers back.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool asked() const noexcept;
  // As if no signal had come.
  void forget() noexcept;

 private:
  std::array<struct sigaction, 3> former_{};
};

}  // namespace clora
