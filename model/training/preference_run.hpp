// PreferenceRun: what a training run with a preference loss has beside its Trainer: the rows of its
// records with their reference, and the evaluation of those that are held out.
// Threads: one at a time. Must not outlive the model, the adapter or the records.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "clora/model/training/training_config.hpp"
#include "model/training/preference_evaluator.hpp"

namespace clora {

// Documents with exchanged answers are as long as the settings and the model allow; without a given
// length, as long as the others. REQUIRES: config.preference. Errors: those of PreferenceRows.
PreferenceRows preference_rows(const Records& records, const TrainingRunConfig& config,
                               const ModelConfig& model);

class PreferenceRun {
 public:
  // valid may be null. arena: as of Evaluator. Errors: as above.
  PreferenceRun(LanguageModel& model, const Adapter& adapter, std::shared_ptr<Arena> arena,
                const Records& train, const Records* valid, const TrainingRunConfig& config);

  bool has_reference() const { return loss_.has_reference(); }
  // Computes the reference of all records by the model as it is now, until should_stop(), which
  // must be collective if there are ranks.
  void compute_reference(const std::function<bool()>& should_stop);
  PackedRows pack(std::span<const std::size_t> indices) const { return train_.pack(indices); }
  // REQUIRES: valid. Collective.
  EvalResult evaluate() { return evaluator_.evaluate(*valid_, batch_size_, ranks_); }

 private:
  PreferenceLoss loss_;
  std::size_t batch_size_;
  Communicator* ranks_;  // null: one device
  PreferenceRows train_;
  std::optional<PreferenceRows> valid_;
  PreferenceEvaluator evaluator_;
};

}  // namespace clora
