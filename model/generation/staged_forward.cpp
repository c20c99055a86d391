#include "model/generation/staged_forward.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {

StagedForward::StagedForward(std::span<const ModelStage> stages,
                             std::span<const PagedForwardConfig> configs)
    : host_(stages.size()) {
  require(!stages.empty() && stages.size() == configs.size(),
          "staged forward: each of at least one stage must have a configuration, got {} of {}",
          configs.size(), stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    contexts_.push_back(&stages[i].model->context());
    stages_.emplace_back(*stages[i].model, configs[i]);
  }
}

void StagedForward::update_scales() {
  for (PagedForward& stage : stages_) stage.update_scales();
}

void StagedForward::record(const StepShape& shape) {
  for (PagedForward& stage : stages_) stage.record(shape);
}

// Part by part, since devices may differ in the alignment of the parts.
void StagedForward::copy_inputs(std::size_t stage, const StepShape& shape) {
  const PagedForward::Staged from = stages_.front().staged(shape);
  require(std::ranges::all_of(from.part(StepInputs::kSources), [](auto id) { return id < 0; }),
          "staged forward: a step over several devices must begin from ids, got latest tokens");
  const PagedForward::Staged to = stages_[stage].begin(shape);
  for (std::size_t part = 0; part < StepInputs::kParts; ++part) {
    std::ranges::copy(from.part(static_cast<StepInputs::Part>(part)),
                      to.part(static_cast<StepInputs::Part>(part)).begin());
  }
}

std::span<std::byte> StagedForward::host_memory(std::size_t stage, std::size_t bytes) {
  std::unique_ptr<PinnedMemory>& memory = host_[stage];
  if (memory == nullptr || memory->bytes().size() < bytes) {
    memory.reset();
    memory = std::make_unique<PinnedMemory>(*contexts_[stage], bytes);
  }
  return memory->bytes().first(bytes);
}

// From the stage to the next one.
void StagedForward::move_stream(std::size_t stage, std::int64_t rows) {
  const Tensor& from = stages_[stage].stream(rows);
  const std::span<std::byte> host = host_memory(stage, from.bytes());
  contexts_[stage]->read(from, host);
  contexts_[stage + 1]->write(stages_[stage + 1].stream(rows), host);
}

void StagedForward::submit(const StepShape& shape) {
  for (std::size_t i = 1; i < size(); ++i) copy_inputs(i, shape);
  for (std::size_t i = 0; i < size(); ++i) {
    if (i > 0) move_stream(i - 1, shape.rows());
    stages_[i].submit(shape);
  }
}

std::optional<std::size_t> StagedForward::gave_up(const StepShape& shape) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (stages_[i].gave_up(shape)) return i;
  }
  return std::nullopt;
}

}  // namespace clora
