#include "tools/clc/lint/lint_rules.hpp"

#include <array>

namespace clora {
namespace {

constexpr std::array<LintRule, 14> kRules{{
    {"needs-definitions", Severity::error,
     "The file stops with #error because a required name is not defined, so it was not checked.",
     "Define the names with -D, or add a line '//! clc: build NAME=VALUE...' to the file's head.",
     find_missing_definitions},
    {"does-not-compile", Severity::error, "clang rejects the file, and so will every driver.",
     "Fix what the message reports.", find_errors},
    {"clang-warning", Severity::warning, "clang warns about it; it is often a mistake.",
     "Fix what the message reports, or mark it as intended with a cast or an attribute.",
     find_warnings},
    {"barrier-in-divergent-flow", Severity::error,
     "Either all items of a work-group must reach a barrier or none; otherwise the group hangs or, "
     "on a CPU, computes wrong results.",
     "Move the barrier out of the condition, and make only the work around it depend on the item.",
     find_barriers_in_divergent_flow},
    {"local-memory-on-cpu", Severity::warning,
     "On a CPU, local memory is ordinary memory, and a barrier makes the compiler split the kernel "
     "into loops over the items that keep their values in memory.",
     "Use work-groups of one item, with private arrays and vectors.", find_local_memory_on_cpu},
    {"missing-reqd-work-group-size", Severity::warning,
     "A kernel that depends on its work-group size is wrong at any other size, and the compiler "
     "cannot use the size: NVIDIA's allocates registers for 1024 items.",
     "Write __attribute__((reqd_work_group_size(X, Y, Z))) before __kernel, with the -D values "
     "that set the launch size.",
     find_missing_work_group_size},
    {"index-overflow", Severity::warning,
     "A product of 32-bit values is computed in 32 bits: from 2^31 elements on (2^32 for uint), "
     "the index is wrong.",
     "Cast one factor: y[(size_t)m * C + c].", find_index_overflows},
    {"implicit-double", Severity::warning,
     "Doubles are optional in OpenCL 1.2, and many times slower than floats on most GPUs.",
     "Use only float, or enable cl_khr_fp64 and cast.", find_implicit_doubles},
    {"unsuffixed-constant", Severity::warning,
     "A constant such as 1.0 is a double, and converts its operands to double.", "Write 1.0f.",
     find_unsuffixed_constants},
    {"non-restrict-pointer", Severity::note,
     "If a written pointer may alias another, loaded values must be loaded again after each store.",
     "Write restrict after the * of pointers that never share elements.",
     find_pointers_without_restrict},
    {"extension-unchecked", Severity::error,
     "Half and double arithmetic, 64-bit atomics and sub-groups are extensions: a device without "
     "them cannot build the file.",
     "Write #pragma OPENCL EXTENSION NAME : enable, inside #ifdef NAME if there is an alternative.",
     find_unchecked_extensions},
    {"host-argument", Severity::error,
     "The host cannot set such an argument correctly: its size differs between devices, or from "
     "the host's type.",
     "Pass int, uint, long, float or vectors of 2, 4, 8 and 16, and buffers as pointers.",
     find_host_arguments},
    {"missing-header", Severity::warning, "A kernel's opening comment is its specification.",
     "Open the file with a formula or sentence, then Shapes, Types, Work, Cost and Numerics.",
     find_missing_header, true},
    {"allow-without-reason", Severity::warning,
     "An exception without a rule or a reason cannot be reviewed.",
     "Write '// clc: allow RULE REASON' with a rule of 'clc lint --rules'.", nullptr},
}};

}  // namespace

std::string_view name_of(Severity severity) {
  constexpr std::array<std::string_view, 3> names{"note", "warning", "error"};
  return names.at(static_cast<std::size_t>(severity));
}

std::span<const LintRule> lint_rules() { return kRules; }

bool LintInput::enables(std::string_view extension) const {
  for (int i = 1; i <= locations.line_count(); ++i) {
    const std::string& line = locations.line(i);
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] != '#') continue;
    if (line.find(extension) != std::string::npos) return true;
  }
  return false;
}

void Report::at(const SyntaxNode& node, std::string text) {
  LintFinding finding;
  finding.location = locations_.of(node.location);
  finding.use = locations_.of(node.use);
  finding.text = std::move(text);
  findings_.push_back(std::move(finding));
}

void Report::at_use(const SyntaxNode& node, std::string text) {
  at(locations_.of(node.use), std::move(text));
}

void Report::at(const SourceLocation& location, std::string text) {
  LintFinding finding;
  finding.location = finding.use = location;
  finding.text = std::move(text);
  findings_.push_back(std::move(finding));
}

void Report::at_in_every_set(const SourceLocation& location, std::string text) {
  at(location, std::move(text));
  findings_.back().must_be_in_every_set = true;
}

std::vector<LintFinding> findings_in(const LintInput& input, bool house) {
  std::vector<LintFinding> findings;
  Report report(input.locations, findings);
  for (const LintRule& rule : lint_rules()) {
    if (rule.find == nullptr || (rule.is_house && !house)) continue;
    const std::size_t before = findings.size();
    rule.find(input, report);
    for (std::size_t i = before; i < findings.size(); ++i) {
      findings[i].rule = rule.id;
      findings[i].severity = rule.severity;
    }
  }
  return findings;
}

}  // namespace clora
