// The rules of clc lint: a table, which `clc lint --rules` prints, and for each rule a function
// that finds violations in one parse of a kernel file. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/clc/kernel_file/kernel_file.hpp"
#include "tools/clc/lint/clang_front_end.hpp"
#include "tools/clc/lint/lint_finding.hpp"

namespace clora {

struct LintInput {
  const KernelFile& file;
  const SourceLocations& locations;
  const ClangReading& reading;
  bool has_options = false;  // the file is parsed with an option set
  bool is_for_cpu = false;   // by the file's name or its build sets

  const SyntaxNode& tree() const noexcept { return reading.tree; }
  // Whether a preprocessor line names the extension: its use is guarded or enabled.
  bool enables(std::string_view extension) const;
};

class Report {
 public:
  Report(const SourceLocations& locations, std::vector<LintFinding>& findings)
      : locations_(locations), findings_(findings) {}

  void at(const SyntaxNode& node, std::string text);  // where it is written, possibly in a macro
  void at_use(const SyntaxNode& node, std::string text);  // where its macro is expanded
  void at(const SourceLocation& location, std::string text);
  // Reports a finding that another option set may refute, such as an unused variable.
  void at_in_every_set(const SourceLocation& location, std::string text);

 private:
  const SourceLocations& locations_;
  std::vector<LintFinding>& findings_;
};

struct LintRule {
  std::string_view id;
  Severity severity = Severity::warning;
  std::string_view reason, fix;
  void (*find)(const LintInput& input, Report& report);
  bool is_house = false;  // project style: only with --house
};

std::span<const LintRule> lint_rules();

// The findings of all rules in one parse, including allowed ones. For a text that does not compile,
// only the compiler's errors. house: also the rules of the project's style.
std::vector<LintFinding> findings_in(const LintInput& input, bool house);

// Whether an error of clang is reported by the rule host-argument or extension-unchecked instead.
bool is_about_arguments(const ClangMessage& message);
bool is_about_extensions(const ClangMessage& message);

// The functions of the rules, grouped by source file.
// lint_messages.cpp
void find_missing_definitions(const LintInput& input, Report& report);
void find_errors(const LintInput& input, Report& report);
void find_warnings(const LintInput& input, Report& report);
// lint_barriers.cpp
void find_barriers_in_divergent_flow(const LintInput& input, Report& report);
// lint_kernels.cpp
void find_local_memory_on_cpu(const LintInput& input, Report& report);
void find_missing_work_group_size(const LintInput& input, Report& report);
void find_pointers_without_restrict(const LintInput& input, Report& report);
void find_host_arguments(const LintInput& input, Report& report);
// lint_indices.cpp
void find_index_overflows(const LintInput& input, Report& report);
// lint_doubles.cpp
void find_implicit_doubles(const LintInput& input, Report& report);
void find_unsuffixed_constants(const LintInput& input, Report& report);
// lint_extensions.cpp
void find_unchecked_extensions(const LintInput& input, Report& report);
// lint_header.cpp
void find_missing_header(const LintInput& input, Report& report);

}  // namespace clora
