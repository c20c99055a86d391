#include "tools/clc/lint_silence.hpp"

#include <algorithm>

#include "tools/clc/lint_rules.hpp"
#include "tools/command_line/suggestion.hpp"

namespace clora {
namespace {

constexpr std::string_view kMark = "// clc: allow";

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const LintRule& rule : lint_rules()) names.emplace_back(rule.id);
  return names;
}

// The first line from `line` on that is more than a comment.
int next_line_of_code(const SourcePlaces& places, int line) {
  for (; line < places.line_count(); ++line) {
    const std::string& text = places.line(line);
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin != std::string::npos && text.compare(begin, 2, "//") != 0) break;
  }
  return line;
}

SourcePlace line_place(const SourcePlaces& places, int line) { return places.of({line, 0}); }

}  // namespace

Silence::Silence(const KernelFile& file, const SourcePlaces& places) {
  for (const AllowedRule& each : file.head.allowed) {
    if (check(each.rule, each.reason, {file.name, 1, 1})) everywhere_.insert(each.rule);
  }
  for (int line = 1; line <= places.line_count(); ++line) read_line(places, line);
}

bool Silence::covers(const Finding& finding) const {
  const auto is_allowed_at = [&](SourcePlace place) {
    place.column = 0;
    return at_lines_.contains({finding.rule, place});
  };
  return everywhere_.contains(finding.rule) || is_allowed_at(finding.place) ||
         is_allowed_at(finding.use);
}

void Silence::read_line(const SourcePlaces& places, int line) {
  const std::string& text = places.line(line);
  const std::size_t at = text.find(kMark);
  if (at == std::string::npos) return;
  const std::size_t begin = std::min(text.find_first_not_of(' ', at + kMark.size()), text.size());
  const std::size_t end = std::min(text.find_first_of(" \t\\", begin), text.size());
  const std::string rule = text.substr(begin, end - begin);
  const std::size_t reason = std::min(text.find_first_not_of(" \t\\", end), text.size());
  const SourcePlace here = places.of({line, static_cast<int>(at) + 1});
  if (!check(rule, text.substr(reason), here)) return;
  const bool is_alone = text.find_first_not_of(" \t") == at;
  const int meant = is_alone ? next_line_of_code(places, line) : line;
  at_lines_.insert({rule, line_place(places, meant)});
}

bool Silence::check(const std::string& rule, const std::string& reason, const SourcePlace& place) {
  const std::vector<std::string> names = rule_names();
  std::string wrong;
  if (std::ranges::find(names, rule) == names.end()) {
    const std::string meant = suggestion_for(rule, names);
    wrong = "'" + rule + "' is no rule" + (meant.empty() ? "" : "; did you mean " + meant + "?");
  } else if (reason.empty()) {
    wrong = "allow " + rule + " must be followed by its reason, and is not; write why";
  }
  if (wrong.empty()) return true;
  Finding mistake;
  mistake.rule = "allow-without-reason";
  mistake.place = mistake.use = place;
  mistake.text = wrong;
  mistakes_.push_back(std::move(mistake));
  return false;
}

}  // namespace clora
