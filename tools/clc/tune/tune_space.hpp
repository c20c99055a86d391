// The search space of `clc tune`: the -D values that a kernel file's head declares, filtered by its
// conditions. Value types and pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ops/tuned/tuned_table.hpp"
#include "tools/clc/kernel_file/expression.hpp"
#include "tools/clc/kernel_file/file_head.hpp"

namespace clora {

struct TuneCandidates {
  std::vector<std::string> parameters;           // their names, in the head's order
  std::vector<std::vector<std::int64_t>> all;    // the values of each candidate, in that order
  std::vector<std::vector<std::int64_t>> steps;  // the sorted values of each parameter

  NamedNumbers values(std::size_t candidate) const;
  // The candidates that differ in one parameter by one step.
  std::vector<std::size_t> neighbours(std::size_t candidate) const;
  // The candidate with these values; all.size() if there is none.
  std::size_t find(const NamedNumbers& values) const;
};

// The space that the head declares for a kernel. Conditions may refer to the parameters and to
// `variables`. Errors: UsageError if the head declares no space or a value that is not an integer,
// and if no candidate remains.
TuneCandidates tune_candidates(const FileHead& head, const std::string& kernel,
                               const Variables& variables, std::string_view file);

// "TILE=64 SIDE=16"
std::string values_text(const NamedNumbers& values);

}  // namespace clora
