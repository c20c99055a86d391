// Lines at the bottom of a terminal that are redrawn in place. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/command_line/output.hpp"

namespace clora {

// The stream to redraw on: that of the output's text, or stderr. nullptr if neither is a terminal,
// or if TERM is "dumb", which has no control sequences.
std::FILE* terminal_for(const Output& output);
// Whether a terminal should show colours: NO_COLOR (no-color.org) is absent or empty.
bool wants_colour();

struct TerminalSize {
  std::size_t columns = 80, rows = 24;
};
TerminalSize terminal_size(std::FILE* terminal);

struct TerminalLine {
  std::string text;       // with control sequences of colours, without a newline
  std::size_t width = 0;  // columns it takes
};

// The text that replaces lines of these widths, which end at the cursor, by others. A terminal that
// became narrower since has wrapped them. Pure.
std::string redrawing(const std::vector<TerminalLine>& drawn, std::size_t columns,
                      const std::vector<TerminalLine>& lines);

class TerminalBlock {
 public:
  // `terminal` outlives the block.
  explicit TerminalBlock(std::FILE* terminal) : terminal_(terminal) {}
  ~TerminalBlock() { clear(); }
  TerminalBlock(const TerminalBlock&) = delete;
  TerminalBlock& operator=(const TerminalBlock&) = delete;

  // Replaces the lines. REQUIRES: each is narrower than the terminal, and they are fewer than its
  // rows.
  void draw(std::vector<TerminalLine> lines);
  // Removes the lines, before other output.
  void clear();
  // Leaves the lines where they are; what follows is below them.
  void leave();

  bool is_drawn() const noexcept { return !drawn_.empty(); }
  TerminalSize size() const { return terminal_size(terminal_); }

 private:
  std::FILE* terminal_;
  std::vector<TerminalLine> drawn_;
};

}  // namespace clora
