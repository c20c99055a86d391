// MemoryPlanner: the memory that a training run takes on its device under each MemoryPolicy, and
// the time of its steps, before anything runs.
//
// The plan is the run's own code on a Context that allocates nothing (ContextConfig::dry_run): the
// model's weights, the adapter, the optimiser and the recorded step are placed as they will be, so
// the bytes are those of the run, not an estimate. The weights are not read.
// Threads: one at a time. Must not outlive the files.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/memory_policy.hpp"
#include "clora/model/weights/weights.hpp"

namespace clora {

struct PlannedRun {
  ContextConfig context;  // of the run; its memory limit is what policies have to fit in
  const WeightFiles* files = nullptr;
  std::int64_t context_length = 0;  // as in LoadOptions
  // The same; with them, a step takes the memory of all micro-batches that the stage may hold at
  // once (TrainerConfig::ranks says how many stages there are).
  std::optional<BlockRange> blocks = {};
  std::function<Adapter(Context&, const ModelConfig&)> make_adapter;
  TrainerConfig trainer = {};  // its policy is not used
  // What validations take while the memory of the steps is held, one after the other: a Generator
  // of so many positions (0: none), and an Evaluator with an arena of its own (no rows: none).
  std::int64_t reply_positions = 0;
  WantedRows scored = {};
  RooflinePeaks peaks = {};  // empty: times are not planned
};

struct PolicyPlan {
  MemoryPolicy policy;
  std::size_t peak_bytes = 0;  // of device memory in use, with the weights
  // What has to be within the limit: with the unused rest of the slabs that are partly used, whose
  // size follows from the limit.
  std::size_t limit_bytes = 0;
  double roofline_seconds = 0;   // of a step, at least; 0 without peaks
  double weight_copy_share = 0;  // ContextConfig::weight_copy_share
};

class MemoryPlanner {
 public:
  // Errors: those of Context, LanguageModel and make_adapter; out_of_memory if the weights and the
  // adapter alone exceed the limit.
  explicit MemoryPlanner(PlannedRun run);
  ~MemoryPlanner();
  MemoryPlanner(const MemoryPlanner&) = delete;
  MemoryPlanner& operator=(const MemoryPlanner&) = delete;

  std::size_t limit_bytes() const;
  // Whether the device keeps bf16 copies of a weight of the model (WeightForm::bf16_copy).
  bool makes_weight_copies() const;
  const ModelConfig& model() const noexcept;
  // In use by weights and adapter, with its gradients and moments: what no policy changes.
  std::size_t fixed_bytes();

  // A step of so many rows, and the validations. Errors: those of Trainer::prepare(), such as
  // out_of_memory for a tensor that exceeds the device's largest allocation.
  PolicyPlan plan(const MemoryPolicy& policy, const WantedRows& wanted);
  // Nullopt if a tensor exceeds the largest allocation, or the rows that an op supports.
  std::optional<PolicyPlan> find_plan(const MemoryPolicy& policy, const WantedRows& wanted);
  // The longest single document, in tokens, of which a step fits into the limit, all of it
  // labelled; 0: not even a short one.
  std::int64_t longest_document(const MemoryPolicy& policy);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The policies worth trying for a step of so many rows, the fastest first; those that round
// (MemoryPolicy::saved) come last.
std::vector<MemoryPolicy> candidate_policies(const ModelConfig& model, std::int64_t rows);

// A step for one document of this length, with every row labelled.
WantedRows rows_of_document(std::int64_t tokens);

// The first of the candidates that fits into the limit of run.context, with the weights' bf16
// copies if they fit as well. Errors: out_of_memory if none fits, with the memory that the smallest
// needs, and the length of a document that would fit.
PolicyPlan choose_policy(const PlannedRun& run, const WantedRows& wanted);
// The same for one policy.
PolicyPlan plan_policy(const PlannedRun& run, const MemoryPolicy& policy, const WantedRows& wanted);

}  // namespace clora
