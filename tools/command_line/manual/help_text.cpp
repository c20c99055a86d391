#include "tools/command_line/manual/help_text.hpp"

#include <cctype>
#include <sstream>

namespace clora {
namespace {

constexpr std::string_view kExitCodes = "Exit codes: ";

bool begins_examples(const std::string& line) { return line == "Examples:" || line == "Example:"; }

// Whether a line begins a paragraph: the help begins a line where it turns to something else.
bool begins_paragraph(const std::string& before, const std::string& line) {
  const bool begins = std::isupper(static_cast<unsigned char>(line.front())) != 0 ||
                      line.front() == '-' || line.starts_with(kExitCodes);
  return begins_examples(line) || (begins && before.ends_with('.'));
}

std::vector<HelpBlock> blocks_of(std::string_view text) {
  std::vector<HelpBlock> blocks;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const bool code = line.starts_with("  ");
    const bool continues = !blocks.empty() && blocks.back().code == code &&
                           (code || !begins_paragraph(blocks.back().lines.back(), line));
    if (!continues) blocks.push_back({.code = code, .lines = {}});
    blocks.back().lines.push_back(code ? line.substr(2) : line);
  }
  return blocks;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : " ") + line;
  return text;
}

}  // namespace

HelpText help_text(std::string_view footer) {
  HelpText text;
  bool examples = false;
  for (HelpBlock& block : blocks_of(footer)) {
    if (!block.code && block.lines.front().starts_with(kExitCodes)) {
      text.exit_codes = joined(block.lines).substr(kExitCodes.size());
      examples = false;
    } else if (!block.code && begins_examples(block.lines.back())) {
      block.lines.pop_back();
      if (!block.lines.empty()) text.description.push_back(std::move(block));
      examples = true;
    } else {
      examples = examples && block.code;
      (examples ? text.examples : text.description).push_back(std::move(block));
    }
  }
  return text;
}

}  // namespace clora
