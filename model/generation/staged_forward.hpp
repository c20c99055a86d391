// StagedForward: the forward of a model whose blocks are divided over several devices, in the form
// of PagedForward, of which each stage has one; or that of a model on one device, which then costs
// nothing more.
//
// A step runs on one stage after another, and the residual stream [T, D] of a stage goes to the
// next one through host memory. Each stage has the cache of its own layers, with the same page
// numbers. Threads: one at a time, for all devices. Must not outlive the models or the adapters.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "clora/model/transformer/model_stage.hpp"
#include "model/transformer/paged_forward.hpp"
#include "runtime/memory/pinned_memory.hpp"

namespace clora {

class StagedForward {
 public:
  // `configs` has one for each stage, which differ in their adapters and stacks only. REQUIRES: the
  // stages are those of one model, in their order. Errors: those of PagedForward.
  StagedForward(std::span<const ModelStage> stages, std::span<const PagedForwardConfig> configs);

  std::size_t size() const noexcept { return stages_.size(); }
  PagedForward& stage(std::size_t index) { return stages_[index]; }
  const PagedForward& stage(std::size_t index) const { return stages_[index]; }
  // Has the logits and the latest tokens, for a sampler.
  PagedForward& last() noexcept { return stages_.back(); }
  const PagedForwardConfig& config() const noexcept { return stages_.front().config(); }

  // As those of PagedForward, for all stages.
  void update_scales();
  void record(const StepShape& shape);
  PagedForward::Staged begin(const StepShape& shape) { return stages_.front().begin(shape); }
  // Waits for all stages but the last. REQUIRES of several stages: the step begins from ids, not
  // from latest tokens (StepInputs::kSources), which the sampler has on the last device only.
  void submit(const StepShape& shape);
  // The first stage that did.
  std::optional<std::size_t> gave_up(const StepShape& shape) const;

 private:
  void copy_inputs(std::size_t stage, const StepShape& shape);
  void move_stream(std::size_t stage, std::int64_t rows);
  std::span<std::byte> host_memory(std::size_t stage, std::size_t bytes);

  std::vector<Context*> contexts_;
  std::deque<PagedForward> stages_;
  std::vector<std::unique_ptr<PinnedMemory>> host_;  // of the streams after the stages
};

}  // namespace clora
