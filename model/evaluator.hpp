// Evaluator: the mean loss of a model on records, with or without an adapter, without dropout.
//
// Records are packed into recorded steps as in training. Threads: one at a time. Must not outlive
// the model or the adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lora/adapter.hpp"
#include "model/language_model.hpp"
#include "model/recorded_step.hpp"
#include "model/records.hpp"

namespace clora {

struct EvalResult {
  std::int64_t step = 0;    // of a training run, where there is one
  double loss = 0;          // mean over the counted tokens
  std::int64_t tokens = 0;  // counted
  double seconds = 0;
};

class Evaluator {
 public:
  // adapter may be null. arena: memory to share with other batches, or null.
  Evaluator(LanguageModel& model, const Adapter* adapter, std::shared_ptr<Arena> arena = nullptr);

  // Waits for the device.
  EvalResult evaluate(const Records& records);
  // Loss summed over the counted tokens of the rows; waits.
  double loss_sum(const PackedRows& rows);

 private:
  LanguageModel* model_;
  Tensor loss_sum_;
  RecordedSteps steps_;
};

// The chosen records packed one after another, without padding. window: as in pack_rows().
PackedRows pack_records(const Records& records, std::span<const std::size_t> indices,
                        std::size_t window);

}  // namespace clora
