// StepLoop: the steps of an engine. Each plans what is computed (Scheduler), enqueues it as one
// recorded batch for each device (StepLayout, StagedForward) with the draws of its tokens on the
// last one (TokenSampler), and reads the tokens of an earlier step into the replies (Replies).
//
// It owns the device memory of an engine: the KV cache and the slots of adapters. Threads: those of
// AdapterSlots, config() and longest() from any thread; everything else one at a time. Must not
// outlive the models.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "clora/model/generation/engine.hpp"
#include "model/generation/adapter_slots.hpp"
#include "model/generation/page_pool.hpp"
#include "model/generation/replies.hpp"
#include "model/generation/scheduler.hpp"
#include "model/generation/staged_forward.hpp"
#include "model/generation/step_layout.hpp"
#include "model/generation/token_sampler.hpp"

namespace clora {

class StepLoop {
 public:
  // Errors: out_of_memory, with the size that the cache needs; invalid_argument.
  // The stages have the base adapter; that of the configuration has no effect.
  StepLoop(std::span<const ModelStage> stages, const EngineConfig& config);

  const std::vector<ModelStage>& stages() const noexcept { return stages_; }
  const ModelConfig& model_config() const { return stages_.front().model->config(); }
  const EngineConfig& config() const noexcept { return config_; }
  std::int64_t longest() const noexcept { return scheduler_.longest(); }  // of sequences
  bool shares_prefixes() const noexcept { return config_.shares_prefixes && !has_states_; }
  bool has_states() const noexcept { return has_states_; }
  AdapterSlots& adapters() noexcept { return adapters_; }
  const AdapterSlots& adapters() const noexcept { return adapters_; }
  StagedForward& forward() noexcept { return forward_; }
  PagePool& pages() noexcept { return pages_; }

  // Engine::prepare().
  void record_largest_steps();

  void add(std::unique_ptr<Sequence> sequence);
  // No effect if it has ended.
  void cancel(RequestId request);
  const Sequence* find(RequestId request) const;
  // Runs one step, if there is a request. Errors: those of the device; the caller then calls
  // lose_all().
  void step();
  // Reads all steps that are enqueued, whose events take_events() returns. Errors: as step().
  void drain();
  // Ends all requests, whose keys and values are lost, with the error.
  void lose_all(const Error& error);
  // Whether nothing is left to do, and no event to take.
  bool is_idle() const;
  std::vector<GenerationEvent> take_events() { return replies_.take_events(); }
  EngineStatistics statistics() const;

 private:
  // A step that is enqueued and not read: the requests that have outputs, each with the number of
  // tokens of its prompt that are measured, and the guesses that a draw verifies.
  struct InFlight {
    StepShape shape;
    struct Part {
      RequestId request;
      std::int64_t measured = 0;
      bool draws = false;
      std::vector<std::int32_t> drafts = {};
    };
    std::vector<Part> parts;
  };

  Sequence* find_sequence(RequestId request) const;
  bool runs_ahead() const;
  std::optional<StepPlan> plan();
  void enqueue(const StepPlan& plan);
  void prepare_slots(const StepPlan& plan);
  void collect();
  void check_late_step(const StepShape& shape, double seconds) const;
  void accept(Sequence& sequence, std::span<const GeneratedToken> tokens,
              std::span<const std::int32_t> drafts);
  bool acquire_adapters(Sequence& sequence);
  void release_adapters(Sequence& sequence);

  std::vector<ModelStage> stages_;
  EngineConfig config_;
  bool has_states_;
  AdapterSlots adapters_;
  StagedForward forward_;
  PagePool pages_;
  TokenSampler sampler_;
  ShapeRules rules_;
  Scheduler scheduler_;
  Replies replies_;
  std::vector<InFlight> in_flight_;  // at most two, oldest first
  std::uint64_t steps_ = 0, draft_tokens_ = 0, accepted_draft_tokens_ = 0;
};

}  // namespace clora
