// What `clc tune` chooses from: the -D values that a kernel file's head declares, without those
// that its conditions leave out. Values; pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ops/tuned_table.hpp"
#include "tools/clc/expression.hpp"
#include "tools/clc/file_head.hpp"

namespace clora {

struct TuneCandidates {
  std::vector<std::string> parameters;           // their names, in the head's order
  std::vector<std::vector<std::int64_t>> all;    // values of each candidate, in that order
  std::vector<std::vector<std::int64_t>> steps;  // of each parameter: its values, in order

  NamedNumbers values(std::size_t candidate) const;
  // Those that differ in one parameter by one step of its values.
  std::vector<std::size_t> neighbours(std::size_t candidate) const;
  // The candidate of these values; all.size(): none.
  std::size_t find(const NamedNumbers& values) const;
};

// The space that the head declares for a kernel. `variables` are what conditions may name beside
// the parameters. Errors: UsageError, where it declares none or one with values that are no whole
// numbers, and where no candidate is left.
TuneCandidates tune_candidates(const FileHead& head, const std::string& kernel,
                               const Variables& variables, std::string_view file);

// "TILE=64 SIDE=16"
std::string values_text(const NamedNumbers& values);

}  // namespace clora
