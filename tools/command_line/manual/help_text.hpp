// The text below the options of a command's help, taken apart for a manual page. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

// Lines that belong together: a paragraph, or lines of code (those that begin with two spaces).
struct HelpBlock {
  bool code = false;
  std::vector<std::string> lines;
};

struct HelpText {
  std::vector<HelpBlock> examples;     // what follows a first line "Examples:", up to other text
  std::vector<HelpBlock> description;  // the rest, in order
  std::string exit_codes;              // of "Exit codes: ..."; empty if there is none
};

HelpText help_text(std::string_view footer);

}  // namespace clora
