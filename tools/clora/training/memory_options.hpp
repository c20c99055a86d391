// The options that choose what a training step keeps in memory (MemoryPolicy), and the choice for a
// run: by the options, or the fastest policy that fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clora/model/training/memory_planner.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct MemoryOptions {
  std::optional<std::int64_t> blocks_per_checkpoint;
  std::optional<std::int64_t> feed_forward_rows;
  std::string saved;  // a name of SavedType; empty: not given

  // Whether one of them is given: the policy is then theirs.
  bool are_given() const;
  MemoryPolicy policy() const;
  // The options that a file of the effective ones leaves out: CLI11 would write the value of an
  // option without one, although the option was not given.
  std::vector<std::string> left_out_of_configuration() const;
};

void add_memory_policy_options(CLI::App& command, MemoryOptions& options);

// Errors: those of choose_policy() and plan_policy().
PolicyPlan planned_memory(const MemoryOptions& options, const PlannedRun& run,
                          const WantedRows& wanted);

}  // namespace clora
