// Manual pages in the macros of man(7), one for the program and one for each of its commands.
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tools/command_line/manual/command_facts.hpp"

namespace clora {

struct ManPage {
  std::string file;  // "clora-train.1"
  std::string text;
};

// A variable of the environment and its effect, as a sentence without its full stop.
struct VariableFacts {
  std::string name, effect;
};

// `version` is that of the program; the page of the program lists the variables.
std::vector<ManPage> man_pages(const CommandFacts& program, const std::string& version,
                               const std::vector<VariableFacts>& variables);

}  // namespace clora
