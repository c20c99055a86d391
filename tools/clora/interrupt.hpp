// Ctrl-C: the first asks the work to come to a good end, a second one ends the program at once
// (exit code 1). SIGTERM counts as Ctrl-C.
//
// One object a program at a time: signal handlers are global. asked() may be called from anywhere.
#pragma once

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
  struct sigaction former_int_ {};
  struct sigaction former_term_ {};
};

}  // namespace clora
