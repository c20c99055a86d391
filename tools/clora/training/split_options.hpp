// --split: whether the devices of a run divide the micro-batches of a step, or the blocks of the
// model; and what follows for a rank of a run that divides the blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/configuration/block_range.hpp"
#include "clora/model/training/communicator.hpp"
#include "clora/model/training/memory_planner.hpp"
#include "clora/model/training/training_run.hpp"
#include "tools/command_line/cli_declarations.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

struct SplitOptions {
  std::string by = "batches";

  bool by_layers() const { return by == "layers"; }
};

void add_split_option(CLI::App& command, SplitOptions& options, const std::string& group);

// --device-shares of commands that do not train.
void add_split_shares_option(CLI::App& command, std::vector<std::int64_t>& shares,
                             const std::string& group);

// Errors: invalid_argument for shares of a model that is not split.
void check_split_shares(const SplitOptions& options, const std::vector<std::int64_t>& shares);

// Errors: invalid_argument if the blocks of a model are to be divided over one device; unsupported,
// naming them, for `whole_model`: options that need the model on one device, or empty.
void check_split(const SplitOptions& options, std::int64_t devices, std::string_view whole_model);

// The blocks that this rank holds; nullopt: all. shares: proportions of the weights' bytes, one for
// each rank; empty: equal ones. ranks: null for one device. Errors: invalid_argument.
std::optional<BlockRange> blocks_of_rank(const SplitOptions& options, const std::string& model,
                                         const std::vector<std::int64_t>& shares,
                                         const Communicator* ranks);

// The same plan for all stages: `own`, or the leanest one that another stage needs. Collective.
PolicyPlan agreed_plan(const PolicyPlan& own, const PlannedRun& run, const WantedRows& wanted,
                       Communicator& ranks);

// A line for each stage: how long its device waited for its neighbours.
void show_idle_shares(const TrainingSummary& summary, Output& output);

}  // namespace clora
