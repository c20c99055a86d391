#include "tools/clora/interrupt.hpp"

#include <unistd.h>

#include <atomic>
#include <cstring>

namespace clora {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

// The state of the signal handler: lock-free, and set before the handler is installed.
std::atomic<int> signals_seen{0};
std::atomic<const char*> words{""};

// write() is async-signal-safe; a handler cannot report its failure.
void write_error(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

void on_signal(int) {
  if (signals_seen.fetch_add(1) == 0) {
    write_error(words.load());
    return;
  }
  write_error("\nclora: stopped immediately\n");
  ::_exit(1);
}

}  // namespace

Interrupt::Interrupt(const char* first_words) {
  signals_seen = 0;
  words = first_words;
  struct sigaction action {};
  action.sa_handler = on_signal;  // no SA_RESTART: a read of user input must return
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &former_[i]);
    if (kSignals[i] == SIGHUP && former_[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_[i], nullptr);
}

bool Interrupt::requested() const noexcept { return signals_seen.load() > 0; }
void Interrupt::forget() noexcept { signals_seen = 0; }

}  // namespace clora
