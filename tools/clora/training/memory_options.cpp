#include <CLI/CLI.hpp>

#include "tools/clora/training/memory_options.hpp"

#include "tools/command_line/number_options.hpp"

namespace clora {
namespace {

constexpr const char* kGroup = "Memory";
constexpr std::int64_t kMaxBlocks = 10000;
constexpr std::int64_t kMaxTile = std::int64_t{1} << 20U;

}  // namespace

bool MemoryOptions::are_given() const {
  return blocks_per_checkpoint || feed_forward_rows || !saved.empty();
}

MemoryPolicy MemoryOptions::policy() const {
  const std::int64_t rows = feed_forward_rows.value_or(0);
  return {.blocks_per_checkpoint = blocks_per_checkpoint.value_or(0),
          .feed_forward_rows = (rows + kRowsOfTiles - 1) / kRowsOfTiles * kRowsOfTiles,
          .saved = saved.empty() ? SavedType::as_computed : named_saved_type(saved)};
}

std::vector<std::string> MemoryOptions::left_out_of_configuration() const {
  if (blocks_per_checkpoint) return {};
  return {"gradient-checkpointing"};
}

void add_memory_policy_options(CLI::App& command, MemoryOptions& options) {
  command
      .add_option(
          "--gradient-checkpointing", options.blocks_per_checkpoint,
          "Keep only the input of every N-th block and recompute the rest for the backward; "
          "same results, less memory, more time; 0: off (default: as --memory requires)")
      ->expected(0, 1)
      ->default_str("1")
      ->transform(Integer(0, kMaxBlocks))
      ->type_name("[BLOCKS]")
      ->group(kGroup);
  command
      .add_option(
          "--feed-forward-tile", options.feed_forward_rows,
          "Compute feed-forward layers for so many rows at a time, rounded up to a multiple "
          "of 256; 0: all at once (default: as --memory requires)")
      ->transform(Integer(0, kMaxTile))
      ->type_name("ROWS")
      ->group(kGroup);
  command
      .add_option("--saved-activations", options.saved,
                  "Keep activations, or the inputs of checkpoints, as computed or rounded to fewer "
                  "bits, which changes gradients slightly (default: as --memory requires)")
      ->check(CLI::IsMember({"computed", "bf16", "f16", "q8"}))
      ->type_name("TYPE")
      ->group(kGroup);
}

PolicyPlan planned_memory(const MemoryOptions& options, const PlannedRun& run,
                          const WantedRows& wanted) {
  if (!options.are_given()) return choose_policy(run, wanted);
  return plan_policy(run, options.policy(), wanted);
}

}  // namespace clora
