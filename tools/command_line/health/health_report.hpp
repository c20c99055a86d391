// The findings of `clora doctor` and `clc doctor` about this machine, each with what fixes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/command_line/output.hpp"

namespace clora {

// note: something is unavailable or slower. bad: nothing runs.
enum class Health { good, note, bad };
std::string_view name_of(Health health);

struct HealthFinding {
  Health health = Health::good;
  std::string what;
  std::string fix = {};  // a command or advice; empty if nothing is to be done
};
using HealthFindings = std::vector<HealthFinding>;

// "WHAT; FIX", the form of the library's messages, as a finding.
HealthFinding finding_of_message(Health health, std::string_view message);

void append(HealthFindings& all, HealthFindings more);

// Writes a line per finding and below it the fix, or with --json one object:
//   {"findings": [{"state": "good", "what": "...", "fix": ""}, ...]}
// Returns the exit code: 1 if a finding is bad, else 0.
int report_health(const HealthFindings& findings, Output& output);

// What the footer of a doctor's help says about the report.
inline constexpr const char* kHealthFooter =
    R"(Each line is a check: good, note (something is unavailable or slower) or bad (nothing runs);
below it is the fix. Exit code 1 if something is bad.)";

}  // namespace clora
