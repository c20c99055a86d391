#include "tools/clc/lint/lint_silence.hpp"

#include <algorithm>

#include "tools/clc/lint/lint_rules.hpp"
#include "tools/command_line/suggestion.hpp"

namespace clora {
namespace {

constexpr std::string_view kMark = "// clc: allow";

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const LintRule& rule : lint_rules()) names.emplace_back(rule.id);
  return names;
}

// The first line from `line` on that contains code.
int next_line_of_code(const SourceLocations& locations, int line) {
  for (; line < locations.line_count(); ++line) {
    const std::string& text = locations.line(line);
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin != std::string::npos && text.compare(begin, 2, "//") != 0) break;
  }
  return line;
}

SourceLocation line_location(const SourceLocations& locations, int line) {
  return locations.of({line, 0});
}

}  // namespace

Silence::Silence(const KernelFile& file, const SourceLocations& locations) {
  for (const AllowedRule& each : file.head.allowed) {
    if (check(each.rule, each.reason, {file.name, 1, 1})) everywhere_.insert(each.rule);
  }
  for (int line = 1; line <= locations.line_count(); ++line) read_line(locations, line);
}

bool Silence::covers(const LintFinding& finding) const {
  const auto is_allowed_at = [&](SourceLocation location) {
    location.column = 0;
    return at_lines_.contains({finding.rule, location});
  };
  return everywhere_.contains(finding.rule) || is_allowed_at(finding.location) ||
         is_allowed_at(finding.use);
}

void Silence::read_line(const SourceLocations& locations, int line) {
  const std::string& text = locations.line(line);
  const std::size_t at = text.find(kMark);
  if (at == std::string::npos) return;
  const std::size_t begin = std::min(text.find_first_not_of(' ', at + kMark.size()), text.size());
  const std::size_t end = std::min(text.find_first_of(" \t\\", begin), text.size());
  const std::string rule = text.substr(begin, end - begin);
  const std::size_t reason = std::min(text.find_first_not_of(" \t\\", end), text.size());
  const SourceLocation here = locations.of({line, static_cast<int>(at) + 1});
  if (!check(rule, text.substr(reason), here)) return;
  const bool is_alone = text.find_first_not_of(" \t") == at;
  const int meant = is_alone ? next_line_of_code(locations, line) : line;
  at_lines_.insert({rule, line_location(locations, meant)});
}

bool Silence::check(const std::string& rule, const std::string& reason,
                    const SourceLocation& location) {
  const std::vector<std::string> names = rule_names();
  std::string wrong;
  if (std::ranges::find(names, rule) == names.end()) {
    const std::string meant = suggestion_for(rule, names);
    wrong = "'" + rule + "' is not a rule" + (meant.empty() ? "" : "; did you mean " + meant + "?");
  } else if (reason.empty()) {
    wrong = "allow " + rule + " must be followed by its reason; add one";
  }
  if (wrong.empty()) return true;
  LintFinding mistake;
  mistake.rule = "allow-without-reason";
  mistake.location = mistake.use = location;
  mistake.text = wrong;
  mistakes_.push_back(std::move(mistake));
  return false;
}

}  // namespace clora
