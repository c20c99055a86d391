// Helpers for tests of completion scripts and manual pages: what shells make of a script, and what
// the help of a command lists.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace clora::test {

// Whether PATH has a program, such as a shell.
bool is_installed(const std::string& program);

// The words that bash offers in place of the last of `words` ("clora", "train", "--pre"), after
// reading the script. "=" is a word of its own, as for bash. Files are not listed: their place has
// "compopt default" for files and "compopt dirnames" for folders.
std::vector<std::string> bash_offers(const std::filesystem::path& script,
                                     const std::vector<std::string>& words);
// The same for fish and a command line. fish lists files itself.
std::vector<std::string> fish_offers(const std::filesystem::path& script, const std::string& line);
// What the script gives to _arguments or _describe of zsh for these words.
std::vector<std::string> zsh_specifications(const std::filesystem::path& script,
                                            const std::vector<std::string>& words);

// "--rank", "-V", ...: the names in the list of options of a help.
std::vector<std::string> options_in_help(const std::string& help);

// Complaints of mandoc, or of man if that is not installed, about a page; empty if there are none.
std::string complaints_about_page(const std::filesystem::path& page);

}  // namespace clora::test
