#include "tools/clora/training/split_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "runtime/fail.hpp"
#include "tools/clora/stage_options.hpp"

namespace clora {

void add_split_option(CLI::App& command, SplitOptions& options, const std::string& group) {
  command
      .add_option("--split", options.by,
                  "What several devices divide: the micro-batches of a step (batches), or the "
                  "blocks of a model that is too large for one of them (layers)")
      ->check(CLI::IsMember({"batches", "layers"}))
      ->type_name("batches|layers")
      ->capture_default_str()
      ->group(group);
}

void add_split_shares_option(CLI::App& command, std::vector<std::int64_t>& shares,
                             const std::string& group) {
  command
      .add_option("--device-shares", shares,
                  "With --split layers: proportions of the weights on the devices (default: equal)")
      ->delimiter(',')
      ->type_name("N,N,...")
      ->group(group);
}

void check_split_shares(const SplitOptions& options, const std::vector<std::int64_t>& shares) {
  require(shares.empty() || options.by_layers(),
          "--device-shares divides a model over devices; add --split layers");
}

void check_split(const SplitOptions& options, std::int64_t devices, std::string_view whole_model) {
  if (!options.by_layers()) return;
  require(devices > 1,
          "--split layers divides the model over several devices, got {}; list them, such as "
          "--device gpu:0,gpu:1",
          devices);
  if (whole_model.empty()) return;
  fail(ErrorCode::unsupported,
       "--split layers: {} needs the model on one device; leave it out, or use --split batches",
       whole_model);
}

std::optional<BlockRange> blocks_of_rank(const SplitOptions& options, const std::string& model,
                                         const std::vector<std::int64_t>& shares,
                                         const Communicator* ranks) {
  if (!options.by_layers() || ranks == nullptr) return std::nullopt;
  const auto blocks =
      ranges_by_shares(WeightFiles::open(model), shares, static_cast<std::size_t>(ranks->size()));
  return blocks[static_cast<std::size_t>(ranks->rank())];
}

PolicyPlan agreed_plan(const PolicyPlan& own, const PlannedRun& run, const WantedRows& wanted,
                       Communicator& ranks) {
  const std::vector<MemoryPolicy> all =
      candidate_policies(run.files->config(), static_cast<std::int64_t>(wanted.rows));
  const auto at = std::ranges::find(all, own.policy) - all.begin();
  const auto leanest = std::ranges::max(gather_values(ranks, static_cast<double>(at)));
  if (leanest <= static_cast<double>(at)) return own;
  return plan_policy(run, all.at(static_cast<std::size_t>(leanest)), wanted);
}

void show_idle_shares(const TrainingSummary& summary, Output& output) {
  for (std::size_t rank = 0; rank < summary.idle_shares.size(); ++rank) {
    output.info("rank {}: its device waited for the other stages in {:.1f} % of the steps' time",
                rank, 100 * summary.idle_shares[rank]);
  }
}

}  // namespace clora
