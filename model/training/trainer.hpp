// Trainer: LoRA training steps of a model on packed rows.
//
// A step is recorded once for each row count that occurs (rounded up, so there are few) and
// replayed; everything that changes is in small device buffers that one upload fills. Nothing in a
// step waits for the device: its results are read back after it.
// Threads: one at a time. Must not outlive the model or the adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/data/packing.hpp"
#include "clora/model/training/communicator.hpp"
#include "clora/model/training/contrastive_loss.hpp"
#include "clora/model/training/optimizer.hpp"
#include "clora/model/training/preference_loss.hpp"
#include "clora/model/training/supervised_loss.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/model/transformer/memory_policy.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

struct TrainerConfig {
  OptimizerConfig optimizer = {};
  double weight_decay = 0;
  double clip_norm = 0;  // 0: off
  // Decay of the exponential moving average of the parameters after each step, which begins with
  // the parameters that the Trainer is given. 0: none.
  double average_decay = 0;
  std::uint32_t dropout_seed = 0;
  // The last ranks of each module that are not trained: their matrices stay as they are, and their
  // gradients count as 0 (model/transformer/principal_start.hpp). REQUIRES, unless 0: fewer than a
  // module's ranks; no weight decay; not the optimizer muon, which mixes the ranks of a module.
  std::int64_t frozen_ranks = 0;
  // Weight of the loss that balances the load of experts (ops/experts/load_balance.hpp): the mean
  // over the micro-batches of a step, each over all of its rows, without padding. 0: not computed,
  // as in transformers unless output_router_logits is set.
  double router_aux_loss_coef = 0;
  // Micro-batches are then packed texts (pack_text_pairs()), each with the other texts of its own
  // as negatives, and "labelled tokens" are anchors. nullopt: the loss of the next token.
  std::optional<ContrastiveLoss> contrastive = {};
  // Micro-batches are then packed answers (pack_answers()), and "labelled tokens" are pairs, or
  // answers of KTO, whose KL term is that of all micro-batches of a step.
  std::optional<PreferenceLoss> preference = {};
  SupervisedLoss supervised = {};  // REQUIRES: the default one with either of the losses above
  // Whether StepResult::noise_scale is estimated, which takes a pass over the gradients in each
  // step. With ranks, an exchange does not begin before the end of the micro-batch if the first
  // rank computes only one.
  bool gradient_noise = false;
  MemoryPolicy policy = {};
  // The ranks that train together, or null. Each has a model, an adapter and a Trainer, with the
  // same contents and settings. step(), drain() and state() are then collective, and an update is
  // enqueued by the next of them after its step(). Must outlive the Trainer.
  // If the model holds some of its blocks only, rank r has the r-th part of it, and computes it for
  // the micro-batches of all; each rank has the adapter of all blocks. step() then waits for the
  // neighbours and the device. REQUIRES: ranks of such a model, and the loss of the next token.
  Communicator* ranks = nullptr;
};

struct StepResult {
  std::int64_t step = 0;  // from 1
  // Mean over the labelled tokens by their weights, before the update, + router_aux_loss_coef *
  // balance_loss.
  double loss = 0;
  // The same mean of -log of the targets' probabilities, if the loss has other terms, too.
  std::optional<double> nll = {};
  double balance_loss = 0;  // of the load of experts, without its weight; 0 if it is not computed
  std::int64_t tokens = 0;  // labelled
  std::int64_t rows = 0;    // processed, without padding
  double learning_rate = 0;
  double grad_norm = 0;  // over all adapter matrices, before clipping
  // The noise scale of the gradient in labelled tokens (GradientNoise), smoothed over the steps of
  // this Trainer that had several micro-batches; nullopt if it is not estimated or not known yet.
  std::optional<double> noise_scale = {};
  std::vector<PreferenceScore> preference = {};  // of a preference loss
  std::int64_t nll_rows = 0;                     // of a preference loss: PackedAnswers::nll_rows
};

// The time that a stage of a model takes for the gradients of steps, and the part of it in which
// its device waits for a neighbour.
struct StageSeconds {
  double total = 0;
  double waited = 0;
};

class Trainer {
 public:
  // Errors: invalid_data, naming the matrix, if the adapter holds a value that is not finite;
  // unsupported if activations are f16; those of check() of the optimizer; invalid_argument if
  // router_aux_loss_coef is negative or not finite, or not 0 for a model without experts.
  Trainer(LanguageModel& model, Adapter& adapter, const TrainerConfig& config);
  ~Trainer();

  // Enqueues one optimiser step over the micro-batches (gradient accumulation if there are
  // several); loss and gradient are means over the labelled tokens of all of them, each with the
  // weight of its row (PackedRows::weights). Does not wait
  // for this step; returns the result of the previous one, if there was one. Each micro-batch draws
  // its own dropout mask, the n-th of a run from (dropout_seed, n).
  // An Error before the update is enqueued leaves adapter, optimizer and step number unchanged: the
  // step may be retried. A later Error leaves them undefined, and every further step() fails with
  // invalid_argument until restore().
  // With ranks, every rank passes the micro-batches of all of them, and computes its share: the
  // result is that of one rank which computes all. A failed step cannot be retried. With the loss
  // kto, step() then waits for the KL terms of all ranks.
  // Errors: out_of_memory, build_failed, device, device_lost, cancelled (Communicator). Errors of
  // the previous step, which is then over: invalid_file, naming the weight, if a weight of the
  // model is not finite; else diverged if its loss or gradient norm is not finite. The adapter and
  // the optimizer's state are then not finite, either; files are not changed.
  std::optional<StepResult> step(std::span<const PackedRows> micro_batches, double learning_rate);
  // In what proportions micro-batches are dealt to the ranks (rank_shares.hpp); equal ones at
  // first. REQUIRES: a share for each rank, the same ones on all.
  void set_shares(std::vector<std::int64_t> shares);
  // Measures the seconds that this device takes for the gradients of a micro-batch, without an
  // update. Waits. REQUIRES: no step is in flight.
  double gradient_seconds(const PackedRows& micro_batch);
  // Records the step for these row counts ahead of its first use. Preparing the largest step first
  // lets all others share its memory.
  void prepare(const WantedRows& wanted);
  // The minimum time of an optimiser step with one micro-batch of these row counts, as
  // Batch::roofline_seconds(). Records the step, too.
  double roofline_seconds(const WantedRows& wanted, const RooflinePeaks& peaks);
  // Waits for the step in flight and returns its result, if there is one. Errors: those of step()
  // for the previous step.
  std::optional<StepResult> drain();

  // The memory of the recorded steps, for an Evaluator that runs between them.
  std::shared_ptr<Arena> arena() const noexcept;

  // The average of the adapter's parameters, in its flat order. Waits. REQUIRES: average_decay > 0.
  std::vector<float> average() const;

  std::int64_t steps() const noexcept;  // optimiser steps enqueued so far
  // Of all steps but the first; 0 unless the model is split by layers.
  StageSeconds stage_seconds() const noexcept;

  // The optimizer's state and the step number, for checkpoints. Waits.
  struct State {
    std::int64_t step = 0;
    std::int64_t micro_batches = 0;  // of all these steps: the number of dropout masks drawn
    OptimizerState optimizer;
    std::vector<float> average = {};  // of the adapter's flat buffer; empty without an average
    bool operator==(const State&) const = default;
  };
  State state();
  // After a failed step the adapter's parameters must be restored, too (restore_checkpoint() does).
  // Errors: invalid_argument if the state is of another optimizer or size than that of state().
  void restore(const State& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace clora
