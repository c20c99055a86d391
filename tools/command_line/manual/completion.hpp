// Completion scripts: a shell that has read one completes the program's commands, the options of
// each command, and their values: words of a fixed set, files or folders. A script holds all that
// it needs and does not run the program. Pure; thread-safe.
#pragma once

#include <string>

#include "tools/command_line/manual/command_facts.hpp"

namespace clora {

// For bash 4 or later, with or without the package bash-completion.
std::string bash_completion(const CommandFacts& program);
// For zsh: a file _PROGRAM in a folder of $fpath, or text for eval after compinit.
std::string zsh_completion(const CommandFacts& program);
// For fish 3 or later.
std::string fish_completion(const CommandFacts& program);

}  // namespace clora
