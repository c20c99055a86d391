#include "tools/command_line/terminal_block.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tools/command_line/terminal_line.hpp"

namespace clora {
namespace {

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void put(std::FILE* terminal, const std::string& text) {
  clear_terminal_line();
  std::fputs(text.c_str(), terminal);
  std::fflush(terminal);
}

}  // namespace

std::FILE* terminal_for(const Output& output) {
  if (environment("TERM") == "dumb") return nullptr;
  for (std::FILE* stream : {output.people(), stderr}) {
    if (::isatty(::fileno(stream)) == 1) return stream;
  }
  return nullptr;
}

bool wants_colour() { return environment("NO_COLOR").empty(); }

TerminalSize terminal_size(std::FILE* terminal) {
  winsize size{};
  if (::ioctl(::fileno(terminal), TIOCGWINSZ, &size) != 0) return {};
  TerminalSize result;
  if (size.ws_col > 0) result.columns = size.ws_col;
  if (size.ws_row > 0) result.rows = size.ws_row;
  return result;
}

std::string redrawing(const std::vector<TerminalLine>& drawn, std::size_t columns,
                      const std::vector<TerminalLine>& lines) {
  std::size_t rows = 0;
  for (const TerminalLine& line : drawn) {
    rows += std::max<std::size_t>(1, (line.width + columns - 1) / columns);
  }
  std::string text = "\r";
  if (rows > 1) text += fmt::format("\x1b[{}A", rows - 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += lines[i].text + "\x1b[K";  // erases what an earlier line had beyond this one
    if (i + 1 < lines.size()) text += '\n';
  }
  return text + "\x1b[J";
}

void TerminalBlock::draw(std::vector<TerminalLine> lines) {
  put(terminal_, redrawing(drawn_, size().columns, lines));
  drawn_ = std::move(lines);
}

void TerminalBlock::clear() {
  if (is_drawn()) put(terminal_, redrawing(drawn_, size().columns, {}));
  drawn_.clear();
}

void TerminalBlock::leave() {
  if (is_drawn()) put(terminal_, "\n");
  drawn_.clear();
}

}  // namespace clora
