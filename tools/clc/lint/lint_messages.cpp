// The rules of clc lint that forward clang's diagnostics.
#include <algorithm>
#include <array>

#include "tools/clc/lint/lint_rules.hpp"

namespace clora {
namespace {

// Errors of clang that are reported by a rule of clc lint instead.
constexpr std::array<std::string_view, 4> kOfArguments{
    "cannot be used as the type of a kernel parameter",
    "kernel parameter cannot be declared as a pointer to a pointer",
    "struct kernel parameters may not contain pointers",
    "pointer arguments to kernel functions must reside in"};
constexpr std::array<std::string_view, 4> kOfExtensions{
    "implicit declaration of function 'sub_group_",
    "implicit declaration of function 'get_sub_group", "requires cl_khr_", "half' is not allowed"};

template <std::size_t kCount>
bool has_any(const std::string& text, const std::array<std::string_view, kCount>& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return text.find(part) != std::string::npos; });
}

// The #error line that a message is about; empty if it is not about one.
std::string error_line_of(const LintInput& input, const ClangMessage& message) {
  const std::string& line =
      input.locations.line(input.locations.text_line(message.location.file, message.location.line));
  const std::size_t begin = line.find_first_not_of(" \t#");
  return message.is_error && begin != std::string::npos && line.compare(begin, 5, "error") == 0
             ? message.text
             : "";
}

bool lacks_definitions(const LintInput& input) {
  if (input.has_options) return false;
  return std::ranges::any_of(input.reading.messages, [&](const ClangMessage& message) {
    return !error_line_of(input, message).empty();
  });
}

// clang treats local memory as an ordinary variable, which a work-item must write before reading.
bool is_of_memory_that_others_write(const LintInput& input, const ClangMessage& message) {
  if (message.option.find("uninitialized") == std::string::npos) return false;
  return contains(input.tree(), [&](const SyntaxNode& node) {
    return node.is("VarDecl") && node.type.starts_with("__local ") &&
           message.text.find("'" + node.name + "'") != std::string::npos;
  });
}

// An included file may hold functions that this kernel does not use.
bool is_of_others(const LintInput& input, const ClangMessage& message) {
  return message.option == "-Wunused-function" && message.location.file != input.file.name;
}

// An undeclared name in capitals is a macro that the host defines.
std::string hint_for(const LintInput& input, const ClangMessage& message) {
  constexpr std::string_view kUndeclared = "use of undeclared identifier '";
  if (input.has_options || !message.text.starts_with(kUndeclared)) return {};
  const std::string name = message.text.substr(
      kUndeclared.size(), message.text.find('\'', kUndeclared.size()) - kUndeclared.size());
  const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
  const bool is_in_capitals = std::ranges::none_of(name, is_small);
  return is_in_capitals ? "; is a -D " + name + "=VALUE missing?" : "";
}

}  // namespace

bool is_about_arguments(const ClangMessage& message) {
  return message.is_error && has_any(message.text, kOfArguments);
}

bool is_about_extensions(const ClangMessage& message) {
  return message.is_error && has_any(message.text, kOfExtensions);
}

void find_missing_definitions(const LintInput& input, Report& report) {
  if (input.has_options) return;
  for (const ClangMessage& message : input.reading.messages) {
    const std::string error_line = error_line_of(input, message);
    if (error_line.empty()) continue;
    report.at(message.location,
              "the file requires definitions, but none are given: " + error_line +
                  "; give -D NAME=VALUE, or add '//! clc: build NAME=VALUE' to its head");
  }
}

void find_errors(const LintInput& input, Report& report) {
  if (lacks_definitions(input)) return;  // the remaining messages follow from undefined names
  constexpr int kMax = 20;
  int reported = 0;
  for (const ClangMessage& message : input.reading.messages) {
    if (!message.is_error || is_about_arguments(message) || is_about_extensions(message)) continue;
    if (++reported <= kMax) report.at(message.location, message.text + hint_for(input, message));
  }
}

void find_warnings(const LintInput& input, Report& report) {
  if (input.reading.errors() > 0) return;
  for (const ClangMessage& message : input.reading.messages) {
    if (is_of_memory_that_others_write(input, message)) continue;
    if (is_of_others(input, message)) continue;
    const std::string text = message.text + " (" + message.option + ")";
    if (message.option.starts_with("-Wunused")) {
      report.at_in_every_set(message.location, text);
    } else {
      report.at(message.location, text);
    }
  }
}

}  // namespace clora
