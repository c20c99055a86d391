#include "tools/clc/compile/diagnostics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>

namespace clora {
namespace {

constexpr const char* kSeverity = "(fatal error|error|warning|note)";

const std::regex& location_first() {
  static const std::regex pattern(fmt::format(R"(^\s*(.+?):(\d+):(\d+): {}: (.*)$)", kSeverity));
  return pattern;
}

const std::regex& severity_first() {
  static const std::regex pattern(fmt::format(R"(^\s*{}: (.+?):(\d+):(\d+): (.*)$)", kSeverity));
  return pattern;
}

Diagnostic diagnostic_of(const std::smatch& found, bool severity_comes_first) {
  const std::size_t location = severity_comes_first ? 2 : 1;
  std::string severity = found[severity_comes_first ? 1 : 4];
  if (severity.starts_with("fatal")) severity = "error";
  return {.file = found[location],
          .line = std::stoi(found[location + 1]),
          .column = std::stoi(found[location + 2]),
          .severity = severity,
          .text = found[5]};
}

}  // namespace

std::vector<Diagnostic> diagnostics_of(std::string_view log) {
  std::vector<Diagnostic> all;
  std::istringstream lines{std::string(log)};
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    const bool swapped = std::regex_match(line, found, severity_first());
    if (!swapped && !std::regex_match(line, found, location_first())) continue;
    Diagnostic diagnostic = diagnostic_of(found, swapped);
    if (std::ranges::find(all, diagnostic) == all.end()) all.push_back(std::move(diagnostic));
  }
  return all;
}

std::string readable(const Diagnostic& diagnostic, const KernelFile& file) {
  std::string text = fmt::format("{}:{}:{}: {}: {}", diagnostic.file, diagnostic.line,
                                 diagnostic.column, diagnostic.severity, diagnostic.text);
  const std::string line = file.line(diagnostic.file, diagnostic.line);
  if (line.empty()) return text;
  std::string mark(static_cast<std::size_t>(std::max(diagnostic.column - 1, 0)), ' ');
  for (std::size_t i = 0; i < std::min(mark.size(), line.size()); ++i) {
    if (line[i] == '\t') mark[i] = '\t';
  }
  return fmt::format("{}\n  {}\n  {}^", text, line, mark);
}

}  // namespace clora
