#include "tools/clc/lint_rules.hpp"

#include <array>

namespace clora {
namespace {

constexpr std::array<LintRule, 14> kRules{{
    {"needs-definitions", Severity::error,
     "The file stops with #error where a name that it wants is not defined: it was not looked at.",
     "Give the names with -D, or write a line '//! clc: build NAME=VALUE...' into the file's head.",
     find_missing_definitions},
    {"does-not-compile", Severity::error, "clang does not take the file: no driver will.",
     "Mend what the message says.", find_errors},
    {"clang-warning", Severity::warning, "clang warns of it: often it is a mistake.",
     "Mend what the message says, or say by a cast or an attribute that it is meant.",
     find_warnings},
    {"barrier-in-divergent-flow", Severity::error,
     "All items of a work-group must reach a barrier, or none: else the group hangs or, on a CPU, "
     "computes nonsense.",
     "Take the barrier out of the condition, and let only the work around it depend on the item.",
     find_barriers_in_divergent_flow},
    {"local-memory-on-cpu", Severity::warning,
     "On a CPU local memory is ordinary memory, and a barrier makes the compiler cut the kernel "
     "into loops over the items that keep their values in memory.",
     "Let a work-group of one item do the work of all, with private arrays and vectors.",
     find_local_memory_on_cpu},
    {"missing-reqd-work-group-size", Severity::warning,
     "A kernel that counts on its work-group's size is wrong at any other, and the compiler cannot "
     "use the size: NVIDIA's plans registers for 1024 items.",
     "Write __attribute__((reqd_work_group_size(X, Y, Z))) before __kernel, from the -D that the "
     "host launches by.",
     find_missing_work_group_size},
    {"index-overflow", Severity::warning,
     "A product of 32-bit values is made in 32 bits: from 2^31 elements on, as uint 2^32, the "
     "index is wrong.",
     "Cast one factor: y[(size_t)m * C + c].", find_index_overflows},
    {"implicit-double", Severity::warning,
     "Doubles are an extension of OpenCL 1.2, and many times slower than floats on most GPUs.",
     "Keep to float, or ask for cl_khr_fp64 and cast.", find_implicit_doubles},
    {"unsuffixed-constant", Severity::warning,
     "A constant such as 1.0 is a double, and makes doubles of what it is combined with.",
     "Write 1.0f.", find_unsuffixed_constants},
    {"non-restrict-pointer", Severity::note,
     "Where a written pointer may be any of the others, what was read must be read again after "
     "each store.",
     "Write restrict after the * of pointers that never share elements.",
     find_pointers_without_restrict},
    {"extension-unchecked", Severity::error,
     "Half and double arithmetic, 64-bit atomics and sub-groups are extensions: a device without "
     "them does not build the file.",
     "Write #pragma OPENCL EXTENSION NAME : enable, within #ifdef NAME where there is another way.",
     find_unchecked_extensions},
    {"host-argument", Severity::error,
     "The host cannot set such an argument right: its size differs from device to device, or from "
     "the host's own type.",
     "Pass int, uint, long, float or vectors of 2, 4, 8 and 16, and buffers as pointers.",
     find_host_arguments},
    {"missing-header", Severity::warning, "A kernel's opening comment is its specification.",
     "Open the file with a formula or sentence, then Shapes, Types, Work, Cost and Numerics.",
     find_missing_header, true},
    {"allow-without-reason", Severity::warning,
     "An exception without its rule or its reason cannot be judged by the next reader.",
     "Write '// clc: allow RULE REASON' with a rule of 'clc lint --rules'.", nullptr},
}};

}  // namespace

std::string_view name_of(Severity severity) {
  constexpr std::array<std::string_view, 3> names{"note", "warning", "error"};
  return names.at(static_cast<std::size_t>(severity));
}

std::span<const LintRule> lint_rules() { return kRules; }

bool LintInput::asks_for(std::string_view extension) const {
  for (int i = 1; i <= locations.line_count(); ++i) {
    const std::string& line = locations.line(i);
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] != '#') continue;
    if (line.find(extension) != std::string::npos) return true;
  }
  return false;
}

void Report::at(const SyntaxNode& node, std::string text) {
  Finding finding;
  finding.location = locations_.of(node.location);
  finding.use = locations_.of(node.use);
  finding.text = std::move(text);
  findings_.push_back(std::move(finding));
}

void Report::at_use(const SyntaxNode& node, std::string text) {
  at(locations_.of(node.use), std::move(text));
}

void Report::at(const SourceLocation& location, std::string text) {
  Finding finding;
  finding.location = finding.use = location;
  finding.text = std::move(text);
  findings_.push_back(std::move(finding));
}

void Report::at_in_every_set(const SourceLocation& location, std::string text) {
  at(location, std::move(text));
  findings_.back().must_be_in_every_set = true;
}

std::vector<Finding> findings_in(const LintInput& input, bool house) {
  std::vector<Finding> findings;
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
