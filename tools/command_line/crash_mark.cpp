#include "tools/command_line/crash_mark.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace clora {
namespace {

constexpr std::array<int, 4> kSignals{SIGABRT, SIGBUS, SIGILL, SIGSEGV};

std::atomic<int> marked{-1};

// SA_RESETHAND has restored the default disposition: raises the signal again, which takes effect
// when the handler returns.
void on_crash(int signal) {
  const int descriptor = marked.load();
  [[maybe_unused]] const ssize_t written = descriptor < 0 ? 0 : ::write(descriptor, "!", 1);
  ::raise(signal);
}

bool is_handled_by(int signal, void (*handler)(int)) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == handler;
}

void set_handler(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

CrashMark::CrashMark(int descriptor) {
  if (descriptor < 0) return;
  marked = descriptor;
  for (const int signal : kSignals) {
    if (is_handled_by(signal, SIG_DFL)) set_handler(signal, on_crash, SA_RESETHAND);
  }
}

CrashMark::~CrashMark() {
  marked = -1;
  for (const int signal : kSignals) {
    if (is_handled_by(signal, on_crash)) set_handler(signal, SIG_DFL, 0);
  }
}

}  // namespace clora
