// RecordedStep: forward, loss and, for training, backward of a model over a fixed number of packed
// rows, recorded once and replayed. In a stage of a model that is split by layers
// (LanguageModel::range()), the forward and the backward of its blocks, and the loss in the last.
#pragma once

#include <list>
#include <memory>
#include <optional>

#include "clora/lora/adapter.hpp"
#include "clora/model/training/contrastive_loss.hpp"
#include "clora/model/training/preference_loss.hpp"
#include "clora/model/training/supervised_loss.hpp"
#include "clora/model/transformer/column_scales.hpp"
#include "clora/model/transformer/gradient_parts.hpp"
#include "clora/model/transformer/language_model.hpp"
#include "clora/model/transformer/memory_policy.hpp"
#include "clora/model/transformer/recorded_rows.hpp"
#include "clora/ops/loss/cross_entropy.hpp"

namespace clora {

class Recording;
struct RecordingOptions;

enum class StepKind {
  evaluate,  // loss only, no dropout
  train,     // also gradients into the adapter's buffer (+=)
};

struct StepTask {
  StepKind kind = StepKind::evaluate;
  std::optional<ContrastiveLoss> contrastive = {};  // nullopt: the loss of the next token
  MemoryPolicy policy = {};
  // The rows are then answers (pack_answers()), and what the step computes follows from its
  // results.
  std::optional<PreferenceLoss> preference = {};
  bool marks_gradients = false;    // gradient_parts() have marks, for an exchange among ranks
  SupervisedLoss supervised = {};  // of training on documents, the rows of neither of the others
};

// The sizes for which a step is recorded, as in WantedRows.
struct RowCounts {
  std::int64_t rows = 0;
  std::int64_t labelled = 0;
  std::int64_t attending = 0;
  bool operator==(const RowCounts&) const = default;
};

// Device tensors shared by all steps of one kind.
struct StepResults {
  // [1] f32, to which the losses of the labelled rows are added; in training on documents, times
  // their weights.
  Tensor loss_sum;
  Tensor settings = {};  // [8] f32, a copy of the uploaded settings; or empty
  // [1] f32, to which the loss that balances the load of experts is added; empty: the step does not
  // compute it.
  Tensor balance_loss = {};
  // [1] f32, to which the losses without the terms of SupervisedLoss are added, times their
  // weights. REQUIRES: given if there are terms.
  Tensor nll_sum = {};
  // Of a preference loss. The first one that is given is what a step computes.
  Tensor preference_sums = {};  // [kPreferenceSums] f32, to which the loss adds; with kl of KTO
  Tensor kl = {};  // [2] f32: of KTO, to which rows with exchanged answers add (record_kl_sums())
  Tensor answer_logps = {};  // [N] f32: log-probabilities of the first N answers
};

class RecordedStep {
 public:
  // adapter may be null for evaluate. attended: as in WantedRows. scales: of the adapter, if it has
  // magnitudes. Errors: out_of_memory.
  RecordedStep(LanguageModel& model, const Adapter* adapter, const StepTask& task, RowCounts counts,
               const StepResults& results, std::shared_ptr<Arena> arena, double attended = 0,
               const ColumnScales* scales = nullptr);

  const RecordedRows& inputs() const noexcept { return inputs_; }
  // The batch of a step that trains a stage pauses after the forward (Batch::pause()).
  Batch& batch() noexcept { return batch_; }
  const Batch& batch() const noexcept { return batch_; }
  // The residual stream before and after the stage, [T, D] f32; empty where the model begins or
  // ends. stream_in() is written before the forward, and the backward overwrites it with its
  // gradient; stream_out() is overwritten by the forward, and is its gradient before the backward,
  // which uses it up.
  const Tensor& stream_in() const noexcept { return stream_in_; }
  const Tensor& stream_out() const noexcept { return stream_out_; }
  // Parts of the adapter's gradients that are final before the end of the step, in this order.
  const std::vector<GradientPart>& gradient_parts() const noexcept { return gradient_parts_; }

 private:
  bool trains() const { return task_.kind == StepKind::train; }
  void record(const StepResults& results);
  void record_next_token(Recording& recording, const StepResults& results);
  // Returns the gradient of the model's output; empty for evaluate.
  Tensor record_loss_of_tokens(const Tensor& output, const StepResults& results);
  void record_contrastive(Recording& recording, const StepResults& results);
  void record_answers(Recording& recording, const StepResults& results);
  RecordingOptions options(const StepResults& results) const;
  // Overwrites loss [C] of the labelled rows. output: of the model, for these rows. Returns its
  // gradient, and adds to those of the head, if the step trains and a weight is given.
  Tensor record_loss(const Tensor& output, const Tensor& loss, const Tensor& weight,
                     const LossTerms& terms = {});

  LanguageModel* model_;
  const Adapter* adapter_;
  StepTask task_;
  double attended_;
  const ColumnScales* scales_;
  RecordedRows inputs_;
  Batch batch_;
  std::vector<GradientPart> gradient_parts_;
  Tensor stream_in_, stream_out_;
};

// Returns the sizes of the recorded step for these row counts, each rounded up so that few
// different steps are recorded: on a CPU, where every row costs time, to multiples of 16 and then
// in steps of a sixteenth of a power of two; on other devices, where recording a step may cost as
// much as running it, to multiples of 64 and then in eighths.
RowCounts recorded_row_counts(std::size_t rows, std::size_t labelled, DeviceKind device,
                              std::size_t attending = 0);

// The recorded steps of one kind by their sizes, recorded at first use. If there are many, the
// least recently used one is dropped, since each holds a kernel object for every command. Steps of
// one slot share their temporaries; with several slots, as many steps may be in flight at once.
class RecordedSteps {
 public:
  RecordedSteps(LanguageModel& model, const Adapter* adapter, const StepTask& task,
                StepResults results, std::shared_ptr<Arena> arena);

  // Enqueues what follows from the adapter's parameters alone (ColumnScales). REQUIRES: called
  // before the next submit() after they have changed.
  void update_scales() { scales_.update(); }
  // Replays the step that fits `packed`, padded to its row count: uploads and submits without
  // waiting. `staging` must stay unchanged until the fence has passed. That step is latest()
  // afterwards, until the next call of submit() or prepare().
  Fence submit(const PackedRows& packed, const RecordedRows::Scalars& scalars,
               std::vector<std::int32_t>& staging);
  // The same without submitting: returns the step, whose inputs are being uploaded. A slot's step
  // may not be dropped before its work is enqueued, so no other call with that slot may follow.
  RecordedStep& upload(const PackedRows& packed, const RecordedRows::Scalars& scalars,
                       std::vector<std::int32_t>& staging, std::size_t slot = 0);
  // Records the step for these row counts ahead of its first use.
  RecordedStep& prepare(const WantedRows& wanted, std::size_t slot = 0);
  const RecordedStep& latest() const { return slots_.front().steps.front(); }

 private:
  struct Slot {
    std::shared_ptr<Arena> arena;
    std::list<RecordedStep> steps;  // most recently used first
  };

  LanguageModel* model_;
  const Adapter* adapter_;
  StepTask task_;
  StepResults results_;
  ColumnScales scales_;
  std::vector<Slot> slots_;
};

}  // namespace clora
