// Trainer: LoRA training steps of a model on packed rows.
//
// A step is recorded once for each row count that occurs (rounded up, so that few do) and replayed;
// all that changes lies in small device buffers that one upload fills. Nothing in a step waits for
// the device: results of a step are read back after it.
// Threads: one at a time. Must not outlive the model or the adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lora/adapter.hpp"
#include "model/data/packing.hpp"
#include "model/families/language_model.hpp"
#include "runtime/batch.hpp"

namespace clora {

struct TrainerConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;  // 0: off
  std::uint32_t dropout_seed = 0;
};

struct StepResult {
  std::int64_t step = 0;    // from 1
  double loss = 0;          // mean over the labelled tokens, before the update
  std::int64_t tokens = 0;  // labelled
  std::int64_t rows = 0;    // processed, padding not counted
  double learning_rate = 0;
  double grad_norm = 0;  // over all adapter matrices, before clipping
};

class Trainer {
 public:
  // Errors: invalid_data where the adapter holds a value that is not finite, naming its matrix.
  Trainer(LanguageModel& model, Adapter& adapter, const TrainerConfig& config);
  ~Trainer();

  // Enqueues one optimiser step over the micro-batches (gradient accumulation where there are
  // several); loss and gradient are means over the labelled tokens of all of them. Does not wait
  // for this step; returns the result of the previous one, if there was one. An Error before the
  // update is enqueued leaves adapter, moments and step number as they were: the step may be tried
  // again. One from there on leaves them undefined, and every later step() is refused
  // (invalid_argument) until restore(). Errors: out_of_memory, build_failed, device, device_lost;
  // those of the previous step, which is then over: diverged where its loss or gradient norm is not
  // finite, or invalid_file, naming the weight, where a weight of the model is not. The adapter and
  // the moments are then not finite, either; files are untouched. Each micro-batch draws a dropout
  // mask of its own, the n-th of a run that of (dropout_seed, n).
  std::optional<StepResult> step(std::span<const PackedRows> micro_batches, double learning_rate);
  // Records the step for such rows ahead of its first use. Preparing the largest first lets all
  // others share its memory.
  void prepare(const WantedRows& wanted);
  // Waits for the step in flight and returns its result, if there is one. Errors: as step() has of
  // the previous step.
  std::optional<StepResult> drain();

  // The memory of its recorded steps, for an Evaluator that works between them.
  std::shared_ptr<Arena> arena() const noexcept;

  std::int64_t steps() const noexcept;  // optimiser steps enqueued so far

  // Moments and step number, for checkpoints. Waits. The moments have the adapter's flat order.
  struct State {
    std::int64_t step = 0;
    std::int64_t micro_batches = 0;  // of all these steps: how many dropout masks were drawn
    std::vector<float> first_moment;
    std::vector<float> second_moment;
  };
  State state();
  // After a broken step the adapter's parameters must be written, too (restore_checkpoint() does).
  // REQUIRES: sizes as state() gives for this adapter.
  void restore(const State& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clora
