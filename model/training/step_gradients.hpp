// StepGradients: the gradients of an optimiser step, from its micro-batches to the sums over all
// ranks, in the adapter's buffer of gradients.
//
// Owns the recorded steps. Without ranks it computes every micro-batch. Ranks deal them out by
// their shares, or each has a stage of the model and computes its part of all (StagedGradients).
// Must not outlive the model or the adapter. Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "clora/model/training/rank_shares.hpp"
#include "clora/model/training/recorded_step.hpp"
#include "clora/model/training/trainer.hpp"
#include "model/training/gradient_exchange.hpp"
#include "model/training/staged_gradients.hpp"
#include "model/training/step_sums.hpp"
#include "ops/optimizers/flat_update.hpp"

namespace clora {

class StepGradients {
 public:
  // update_settings: [8] f32, which every step overwrites with its settings. config: of the
  // Trainer, which outlives this.
  StepGradients(LanguageModel& model, Adapter& adapter, const TrainerConfig& config,
                const StepSums& sums, Tensor update_settings);

  struct Work {
    std::span<const PackedRows> micro_batches;  // of all ranks
    UpdateSettings settings;                    // of the update that follows
    double weight = 0;                          // of all labelled tokens
    std::int64_t nll_rows = 0;                  // PackedAnswers::nll_rows, of all
    std::int64_t earlier = 0;                   // micro-batches of earlier steps
  };
  // Host memory of transfers. Must stay unchanged until the device has done the step.
  struct Staging {
    std::vector<std::vector<std::int32_t>> rows, kl_rows;
    UpdateSettings settings;
  };

  // Enqueues the gradients and sums of this rank's micro-batches. Collective with ranks, and then
  // waits for the KL sums of a loss that has them, and for the stages. Returns a fence after all.
  Fence compute(const Work& work, Staging& staging);
  // The same for all of `work` on this rank alone: a measurement.
  Fence compute_alone(const Work& work, Staging& staging);

  // Whether there are ranks: begin_exchange() then follows compute(), and finish_exchange() comes
  // before the update.
  bool is_exchanged() const noexcept { return exchange_.has_value(); }
  // end: what compute() returned.
  void begin_exchange(const Work& work, Fence end);
  bool is_exchanging() const { return exchange_ && exchange_->pending(); }
  // Waits for all ranks. Returns their sums (StepSums::Read::over_ranks).
  std::vector<float> finish_exchange() { return exchange_->finish(); }

  // As those of the Trainer.
  void set_shares(std::vector<std::int64_t> shares);
  void prepare(const WantedRows& wanted);
  double roofline_seconds(const WantedRows& wanted, const RooflinePeaks& peaks);
  StageSeconds stage_seconds() const;
  const std::shared_ptr<Arena>& arena() const noexcept { return arena_; }

 private:
  bool has_kl() const { return config_.preference && config_.preference->has_kl(); }
  StepResults results(const StepSums& sums) const;
  void record_first_square(const StepSums& sums);
  MicroBatchRange own_range(std::size_t count) const;
  // What the gradients of the range need: sums of 0, the adapter's scales, and the KL term of KTO.
  Fence begin(const Work& work, MicroBatchRange own, Staging& staging);
  // Waits for the KL sums of all ranks, which then are those of every rank.
  void exchange_kl();
  // After `end`, what begin() returned.
  Fence enqueue(const Work& work, MicroBatchRange own, Staging& staging, Fence end);
  // What micro-batch i of the step gets besides its rows.
  RecordedRows::Scalars scalars_of(const Work& work, std::size_t i) const;

  LanguageModel& model_;
  Adapter& adapter_;
  const TrainerConfig& config_;
  Context& context_;
  Tensor update_settings_, kl_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::optional<RecordedSteps> recorded_, kl_steps_;
  std::vector<std::int64_t> shares_;       // of the ranks
  std::optional<StagedGradients> staged_;  // of a stage of a model that is split by layers
  std::optional<GradientExchange> exchange_;
  Batch zero_;
  std::optional<Batch> first_square_;  // of the gradients of the step's first micro-batch
};

}  // namespace clora
