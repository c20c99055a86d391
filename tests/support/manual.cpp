#include "tests/support/manual.hpp"

#include <fmt/format.h>

#include <regex>
#include <sstream>

#include "tests/support/program.hpp"

namespace clora::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += fmt::format(" '{}'", word);
  return text;
}

// Output and errors together: an error of a script is an offer that no test expects.
std::vector<std::string> output_of(const std::string& command) {
  const ProgramResult result = run_program("/bin/sh", {.arguments = {"-c", command}});
  return lines_of(result.out + result.err);
}

}  // namespace

bool is_installed(const std::string& program) {
  return run_program("/bin/sh", {.arguments = {"-c", "command -v " + program}}).exit_code == 0;
}

std::vector<std::string> bash_offers(const std::filesystem::path& script,
                                     const std::vector<std::string>& words) {
  const std::string code = fmt::format(
      R"(source '{}'; compopt() {{ echo "compopt $2"; }}; COMP_WORDS=({}); COMP_CWORD={}
         _{}; [[ ${{#COMPREPLY[@]}} -eq 0 ]] || printf '%s\n' "${{COMPREPLY[@]}}")",
      script.string(), quoted(words), words.size() - 1, words.front());
  const ProgramResult result =
      run_program("/bin/bash", {.arguments = {"--norc", "-u", "-c", code}});
  return lines_of(result.out + result.err);
}

std::vector<std::string> fish_offers(const std::filesystem::path& script, const std::string& line) {
  std::vector<std::string> offers = output_of(
      fmt::format("HOME=/nonexistent fish --no-config -c \"source '{}'; complete -C '{}'\"",
                  script.string(), line));
  for (std::string& offer : offers) offer.erase(std::min(offer.find('\t'), offer.size()));
  return offers;
}

std::vector<std::string> zsh_specifications(const std::filesystem::path& script,
                                            const std::vector<std::string>& words) {
  const std::string code = fmt::format(
      R"(compdef() {{ }}; _arguments() {{ print -rl -- "$@" }}; _describe() {{ print -rl -- ${{(P)2}} }}
source '{}'; words=({}); CURRENT={}; _{})",
      script.string(), quoted(words), words.size(), words.front());
  const ProgramResult result =
      run_program("/usr/bin/env", {.arguments = {"zsh", "-f", "-c", code}});
  return lines_of(result.out + result.err);
}

std::vector<std::string> options_in_help(const std::string& help) {
  static const std::regex name("(^|,)(--?[A-Za-z][A-Za-z0-9-]*)");
  std::vector<std::string> names;
  for (const std::string& line : lines_of(help)) {
    if (!line.starts_with("  -")) continue;
    const std::string listed = line.substr(2, line.find(' ', 2) - 2);  // "-h,--help"
    for (std::sregex_iterator at(listed.begin(), listed.end(), name), end; at != end; ++at) {
      names.push_back((*at)[2]);
    }
  }
  return names;
}

std::string complaints_about_page(const std::filesystem::path& page) {
  // The date of a page is left out: it would differ between equal builds.
  const std::string command =
      is_installed("mandoc")
          ? fmt::format("mandoc -T lint -W warning '{}' | grep -v 'missing date'", page.string())
          : fmt::format("LC_ALL=C.UTF-8 man --warnings -l '{}' 2>&1 >/dev/null", page.string());
  return run_program("/bin/sh", {.arguments = {"-c", command}}).out;
}

}  // namespace clora::test
