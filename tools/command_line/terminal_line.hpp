// A line on the terminal that says what the program is doing: whatever is written next takes its
// place. There is one for the process, on stderr where that is a terminal. Threads: one at a time.
#pragma once

#include <string_view>

namespace clora {

// Whether there is a terminal for it.
bool has_terminal_line();

// Shows the text, cut to the terminal's width, in place of the line that is there.
void show_terminal_line(std::string_view text);

// Takes the line away. Whoever writes to stdout or stderr calls it first.
void clear_terminal_line();

}  // namespace clora
