// StagedGradients: the gradients of an optimiser step in one stage of a model that is split by
// layers: every micro-batch flows through the stages of all ranks, forward and backward, in the
// order of stage_schedule().
//
// Must not outlive the model, the steps or the Communicator. Threads: one at a time.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "clora/model/training/communicator.hpp"
#include "clora/model/training/recorded_step.hpp"
#include "clora/model/training/trainer.hpp"
#include "model/training/stage_streams.hpp"

namespace clora {

class StagedGradients {
 public:
  // steps: of training. Rank r of `ranks` has the r-th stage.
  StagedGradients(const LanguageModel& model, RecordedSteps& steps, Communicator& ranks);

  // Records the steps of all micro-batches that may be in flight at once.
  void prepare(const WantedRows& wanted);

  // The micro-batches of a step. staging: one for each, which must stay unchanged until the device
  // is done. after_backward(i) is called when the backward of micro-batch i is enqueued.
  struct Work {
    std::span<const PackedRows> micro_batches;
    std::function<RecordedRows::Scalars(std::size_t)> scalars;
    std::span<std::vector<std::int32_t>> staging;
    std::function<void(std::size_t)> after_backward;
  };
  // Adds the gradients of the held blocks. Every stage makes this call at the same time. Waits for
  // the neighbours and for the device.
  void run(const Work& work);

  // Of all calls of run() but the first, which builds kernels.
  StageSeconds seconds() const noexcept { return seconds_; }

 private:
  void forward(const Work& work, std::size_t i);
  void backward(const Work& work, std::size_t i);
  std::size_t slot_of(std::size_t i) const { return i % slots_; }

  const LanguageModel& model_;
  RecordedSteps& steps_;
  StageStreams streams_;
  std::size_t stage_, stages_, slots_;
  std::vector<RecordedStep*> in_flight_;  // by slot
  Fence end_;                             // of the last task
  StageSeconds seconds_;
  bool is_first_run_ = true;
};

}  // namespace clora
