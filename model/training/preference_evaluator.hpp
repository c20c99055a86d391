// PreferenceEvaluator: log-probabilities of answers by a model with or without an adapter, and the
// mean preference loss over records, without dropout.
// Threads: one at a time. Must not outlive the model or the adapter.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/recorded_step.hpp"
#include "model/training/preference_rows.hpp"

namespace clora {

class PreferenceEvaluator {
 public:
  // arena, policy: as of Evaluator.
  PreferenceEvaluator(LanguageModel& model, const Adapter* adapter, std::shared_ptr<Arena> arena,
                      const PreferenceLoss& loss, const MemoryPolicy& policy);

  // Returns the log-probability of each answer of the rows. Waits. REQUIRES: kMaxAnswers at most.
  std::vector<float> answer_logps(const PackedRows& rows);
  static constexpr std::size_t kMaxAnswers = 1024;

  // Computes the reference of all records by the model as it is now; no-op for a loss without one.
  // The records share steps in a fixed way, so that the same model gives the same bits. Returns
  // false if should_stop() ended it. ranks: as of Evaluator::evaluate(); should_stop() must then
  // return the same on all ranks, and may be collective. Errors: diverged, naming the first record
  // whose log-probability is not finite.
  bool compute_reference(PreferenceRows& rows, const std::function<bool()>& should_stop,
                         Communicator* ranks = nullptr);

  // The mean loss and the scores. at_once: at most as many records share a step, and with it the KL
  // term of KTO. ranks, errors: as of Evaluator::evaluate().
  EvalResult evaluate(const PreferenceRows& rows, std::size_t at_once,
                      Communicator* ranks = nullptr);

 private:
  void require_finite(std::span<const float> logps, std::size_t first_record) const;
  void compute_reference_of(PreferenceRows& rows, const std::vector<std::size_t>& group);
  void set_zero(const Tensor& tensor);
  // Adds to the sums on the device. Waits.
  void add_loss_of(const PackedRows& packed);

  LanguageModel* model_;
  const Adapter* adapter_;
  PreferenceLoss loss_;
  Tensor logps_, kl_, sums_, unused_sum_;
  RecordedSteps logps_steps_, kl_steps_, loss_steps_;
};

}  // namespace clora
