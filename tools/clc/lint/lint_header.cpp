// The rule missing-header of clc lint: the opening comment required by the project's style.
#include <algorithm>
#include <array>
#include <cctype>

#include "tools/clc/lint/lint_rules.hpp"

namespace clora {
namespace {

// The comment that the file begins with, without directives to clc.
std::string opening_comment(const SourceLocations& locations) {
  std::string comment;
  for (int i = 2; i <= locations.line_count(); ++i) {  // skips its #line
    const std::string& line = locations.line(i);
    if (!line.starts_with("//")) break;
    if (!line.starts_with("//!")) comment += line + '\n';
  }
  return comment;
}

bool has_word(const std::string& text, std::string_view word) {
  const auto is_letter = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if (!(at > 0 && is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  }
  return false;
}

}  // namespace

void find_missing_header(const LintInput& input, Report& report) {
  if (!std::ranges::any_of(functions_of(input.tree()),
                           [](const SyntaxNode* each) { return is_kernel(*each); })) {
    return;
  }
  constexpr std::array<std::string_view, 5> wanted{"Shapes", "Types", "Work", "Cost", "Numerics"};
  const std::string comment = opening_comment(input.locations);
  std::string missing;
  const std::string first = comment.substr(0, comment.find('\n'));
  if (std::ranges::count(first, ' ') < 3) missing = "a formula or sentence";
  for (const std::string_view word : wanted) {
    if (!has_word(comment, word)) missing += (missing.empty() ? "" : ", ") + std::string(word);
  }
  if (missing.empty()) return;
  report.at({input.file.name, 1, 1}, "the opening comment of a kernel file lacks " + missing);
}

}  // namespace clora
