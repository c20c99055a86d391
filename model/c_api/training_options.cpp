#include "model/c_api/training_options.hpp"

#include "model/c_api/boundary.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

OptimizerConfig optimizer_of(const clora_trainer_options& options) {
  OptimizerConfig config;
  if (options.optimizer != nullptr) config.kind = named_optimizer(options.optimizer);
  if (options.beta1 != 0) config.beta1 = options.beta1;
  if (options.beta2 != 0) config.beta2 = options.beta2;
  if (options.epsilon != 0) config.epsilon = options.epsilon;
  if (options.momentum != 0) config.momentum = options.momentum;
  config.nesterov = options.nesterov != 0;
  if (options.loraplus_lr_ratio != 0) config.loraplus_lr_ratio = options.loraplus_lr_ratio;
  check(config);
  return config;
}

}  // namespace

TrainerConfig trainer_config_of(const clora_trainer_options& options, std::string_view who) {
  TrainerConfig config;
  config.optimizer = optimizer_of(options);
  config.weight_decay = options.weight_decay;
  config.clip_norm = options.clip_norm;
  config.dropout_seed = options.dropout_seed;
  config.router_aux_loss_coef = options.router_aux_loss_coef;
  config.supervised = {options.label_smoothing, options.z_loss, options.neftune_alpha};
  config.policy.blocks_per_checkpoint = options.blocks_per_checkpoint;
  config.policy.feed_forward_rows = options.feed_forward_rows;
  if (options.saved_activations != nullptr) {
    config.policy.saved = named_saved_type(options.saved_activations);
  }
  require(config.weight_decay >= 0 && config.clip_norm >= 0,
          "{}: weight_decay and clip_norm must not be negative, got {} and {}", who,
          config.weight_decay, config.clip_norm);
  return config;
}

void set_schedule(TrainingRunConfig& config, const clora_schedule* schedule, std::string_view who) {
  const clora_schedule own = read_struct(schedule, who);
  if (own.kind != nullptr) config.schedule = named_schedule(own.kind);
  if (own.learning_rate != 0) config.learning_rate = own.learning_rate;
  config.warmup_steps = own.warmup_steps;
  config.warmup_share = own.warmup_share;
  config.min_rate_share = own.min_rate_share;
  require(own.decay_share == 0 || config.schedule == Schedule::wsd,
          "{}: decay_share is of the schedule wsd, got it with {}", who, name_of(config.schedule));
  if (own.decay_share != 0) config.decay_share = own.decay_share;
}

std::optional<PreferenceKind> preference_kind_of(const char* loss, std::string_view who) {
  const std::string_view name = loss == nullptr ? "sft" : loss;
  const std::optional<PreferenceKind> kind = find_preference(name);
  require(kind || name == "sft", "{}: loss must be sft, dpo, ipo, orpo or kto, got '{}'", who,
          name);
  return kind;
}

std::optional<PreferenceForm> preference_form_of(const std::optional<PreferenceKind>& kind) {
  if (!kind) return std::nullopt;
  return PreferenceLoss{{.kind = *kind}}.has_pairs() ? PreferenceForm::pairs
                                                     : PreferenceForm::labelled;
}

clora_step_result step_result_of(const StepResult& step) {
  clora_step_result value{};
  value.size = sizeof value;
  value.step = step.step;
  value.loss = step.loss;
  value.tokens = step.tokens;
  value.grad_norm = step.grad_norm;
  value.balance_loss = step.balance_loss;
  value.nll = step.nll.value_or(0);
  return value;
}

clora_evaluation evaluation_of(const EvalResult& result) {
  clora_evaluation value{};
  value.size = sizeof value;
  value.step = result.step;
  value.loss = result.loss;
  value.tokens = result.tokens;
  value.seconds = result.seconds;
  for (const PreferenceScore& score : result.preference) {
    const std::string_view name = score.name;
    if (name == "rewards/margins") value.reward_margin = score.value;
    if (name == "rewards/accuracies") value.reward_accuracy = score.value;
  }
  return value;
}

}  // namespace clora::c_api
