// Evaluator: the mean loss of a model on records, with or without an adapter, without dropout.
//
// Records are packed into recorded steps as in training. Threads: one at a time. Must not outlive
// the model or the adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/data/records.hpp"
#include "clora/model/embedding/embedding_scores.hpp"
#include "clora/model/training/communicator.hpp"
#include "clora/model/training/recorded_step.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

struct EvalResult {
  std::int64_t step = 0;    // of a training run, if there is one
  double loss = 0;          // mean over the labelled tokens or anchors; NaN of scored pairs
  std::int64_t tokens = 0;  // labelled, or anchors, pairs or answers
  double seconds = 0;
  EmbeddingScores embedding = {};                // of text pairs
  std::vector<PreferenceScore> preference = {};  // of answers that are compared
};

class Evaluator {
 public:
  static constexpr std::size_t kAnyCount = static_cast<std::size_t>(-1);

  // adapter may be null. arena: memory to share with other batches, or null. contrastive: the loss
  // of text pairs, instead of that of the next token. policy: that of the training beside it.
  Evaluator(LanguageModel& model, const Adapter* adapter, std::shared_ptr<Arena> arena = nullptr,
            const std::optional<ContrastiveLoss>& contrastive = {},
            const MemoryPolicy& policy = {});

  // Waits for the device. Errors: invalid_data if no token of the records is labelled. If the loss
  // is not finite: invalid_file, naming the weight that is not finite; else invalid_data, naming
  // the adapter's matrix that is not finite; else diverged, naming the first record with such a
  // loss.
  // at_once: at most as many records share a step, and with it the negatives of a contrastive loss.
  // ranks: each computes a part of the records, or of a model that is split by layers its blocks,
  // and all get the result of all (collective); null: this device computes all. Scores of
  // embeddings are computed by rank 0, and by none for others.
  EvalResult evaluate(const Records& records, std::size_t at_once = kAnyCount,
                      Communicator* ranks = nullptr);
  // Records the step for these row counts ahead of its first use.
  void prepare(const WantedRows& wanted) { steps_.prepare(wanted); }
  // Returns the loss summed over the labelled tokens of the rows. Waits. The sum is not checked: it
  // is NaN if a weight is NaN. REQUIRES: the model has all its blocks.
  double loss_sum(const PackedRows& rows);

 private:
  PackedRows pack(const Records& records, std::span<const std::size_t> indices) const;
  void add_loss(EvalResult& result, const Records& records, std::size_t at_once,
                Communicator* ranks);
  void add_staged_loss(EvalResult& result, const Records& records, std::size_t at_once,
                       Communicator* ranks);
  // ranks: of a model that is split by layers, else null.
  [[noreturn]] void fail_at_first_of(const Records& records, std::span<const std::size_t> indices,
                                     Communicator* ranks);

  LanguageModel* model_;
  const Adapter* adapter_;
  std::optional<ContrastiveLoss> contrastive_;
  Tensor loss_sum_;
  RecordedSteps steps_;
};

// Whether a token of the record is labelled; the first token never is.
bool has_target(const RecordView& record);
// Throws Error(invalid_data), beginning with `who`, unless a token of a record is labelled.
void require_any_target(const Records& records, std::string_view who);

// Packs the chosen records without padding.
PackedRows pack_records(const Records& records, std::span<const std::size_t> indices);
// The same for a task: the texts of the records if its loss is contrastive.
PackedRows pack_for(const std::optional<ContrastiveLoss>& contrastive, const ModelConfig& model,
                    const Records& records, std::span<const std::size_t> indices);

}  // namespace clora
