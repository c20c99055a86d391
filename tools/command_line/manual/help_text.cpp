#include "tools/command_line/manual/help_text.hpp"

#include <sstream>

namespace clora {
namespace {

constexpr std::string_view kExitCodes = "Exit codes: ";

bool begins_examples(const std::string& line) { return line == "Examples:" || line == "Example:"; }

std::vector<HelpBlock> blocks_of(std::string_view text) {
  std::vector<HelpBlock> blocks;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const bool code = line.starts_with("  ");
    const bool begins = begins_examples(line) || (!code && line.starts_with(kExitCodes));
    if (begins || blocks.empty() || blocks.back().code != code)
      blocks.push_back({.code = code, .lines = {}});
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
