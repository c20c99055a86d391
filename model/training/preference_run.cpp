#include "model/training/preference_run.hpp"

#include <algorithm>
#include <utility>

#include "model/generation/engine_sizes.hpp"

namespace clora {

namespace {

// Layers with a state read the rows of a document one after the other, so that two documents cannot
// have some in common. Of the loss that balances experts, shares of rows would change.
bool shares_prompts(const TrainingRunConfig& config, const ModelConfig& model) {
  return config.router_aux_loss_coef == 0 && !has_states(model);
}

}  // namespace

PreferenceRows preference_rows(const Records& records, const TrainingRunConfig& config,
                               const ModelConfig& model) {
  std::int64_t length = config.max_seq_length;
  if (model.max_positions > 0) length = std::min(length, model.max_positions);
  return {records, *config.preference, config.batch_size, length, shares_prompts(config, model)};
}

PreferenceRun::PreferenceRun(LanguageModel& model, const Adapter& adapter,
                             std::shared_ptr<Arena> arena, const Records& train,
                             const Records* valid, const TrainingRunConfig& config)
    : loss_(*config.preference),
      batch_size_(static_cast<std::size_t>(config.batch_size)),
      ranks_(config.ranks),
      train_(preference_rows(train, config, model.config())),
      evaluator_(model, &adapter, std::move(arena), loss_, config.policy) {
  if (valid != nullptr) valid_.emplace(preference_rows(*valid, config, model.config()));
}

void PreferenceRun::compute_reference(const std::function<bool()>& should_stop) {
  if (!evaluator_.compute_reference(train_, should_stop, ranks_) || !valid_) return;
  evaluator_.compute_reference(*valid_, should_stop, ranks_);
}

}  // namespace clora
