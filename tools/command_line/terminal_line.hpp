// A status line on the terminal, replaced by the next output. There is one per process, on stderr
// if that is a terminal. Not thread-safe.
#pragma once

#include <string_view>

namespace clora {

// Whether there is a terminal for the line.
bool has_terminal_line();

// Shows the text, cut to the terminal's width, in place of the current line.
void show_terminal_line(std::string_view text);

// Removes the line. Must be called before writing to stdout or stderr.
void clear_terminal_line();

}  // namespace clora
