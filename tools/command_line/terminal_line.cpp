#include "tools/command_line/terminal_line.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace clora {
namespace {

bool shown = false;

std::size_t columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

void put(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

bool has_terminal_line() { return ::isatty(STDERR_FILENO) == 1; }

void show_terminal_line(std::string_view text) {
  if (!has_terminal_line()) return;
  std::fflush(stdout);  // keeps earlier output above the line
  put("\r\x1b[K" + std::string(text.substr(0, columns() - 1)));
  shown = true;
}

void clear_terminal_line() {
  if (shown) put("\r\x1b[K");
  shown = false;
}

}  // namespace clora
