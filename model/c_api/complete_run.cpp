// clora.h: a complete training run.
#include "clora/model/training/training_run.hpp"

#include <string>

#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "model/c_api/records.hpp"
#include "model/c_api/training_options.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

constexpr std::string_view kWho = "clora_train";

void set_trainer(TrainingRunConfig& config, const clora_trainer_options* options) {
  const TrainerConfig own = trainer_config_of(read_struct(options, kWho), kWho);
  require(own.dropout_seed == 0,
          "{}: the trainer's dropout_seed must be 0, since a run draws from its seed, got {}", kWho,
          own.dropout_seed);
  config.optimizer = own.optimizer;
  config.weight_decay = own.weight_decay;
  config.clip_norm = own.clip_norm;
  config.router_aux_loss_coef = own.router_aux_loss_coef;
  config.supervised = own.supervised;
  config.policy = own.policy;
}

std::optional<PreferenceLoss> preference_of(const clora_training_options& o) {
  const auto kind = preference_kind_of(o.loss, kWho);
  if (!kind) {
    require(o.beta == 0 && o.preference_label_smoothing == 0 && o.desirable_weight == 0 &&
                o.undesirable_weight == 0,
            "{}: beta and what follows it are of a preference loss; set loss, or leave them 0",
            kWho);
    return std::nullopt;
  }
  PreferenceLoss loss{{.kind = *kind}};
  if (o.beta != 0) loss.formula.beta = static_cast<float>(o.beta);
  loss.formula.label_smoothing = static_cast<float>(o.preference_label_smoothing);
  if (o.desirable_weight != 0) {
    loss.formula.desirable_weight = static_cast<float>(o.desirable_weight);
  }
  if (o.undesirable_weight != 0) {
    loss.formula.undesirable_weight = static_cast<float>(o.undesirable_weight);
  }
  return loss;
}

TrainingRunConfig config_of(const clora_training_options& o) {
  TrainingRunConfig config;
  set_trainer(config, o.trainer);
  set_schedule(config, o.schedule, kWho);
  if (o.batch_size != 0) config.batch_size = o.batch_size;
  if (o.grad_accumulation != 0) config.grad_accumulation = o.grad_accumulation;
  config.steps = o.steps;
  if (o.epochs != 0) config.epochs = o.epochs;
  config.shuffle = o.no_shuffle == 0;
  config.seed = o.seed;
  config.eval_every = o.eval_every;
  config.patience = o.patience;
  config.min_improvement = o.min_improvement;
  config.save_every = o.save_every;
  config.average_decay = o.average_decay;
  config.adapter_out = o.adapter_out;
  config.max_seq_length = o.train->max_seq_length;
  config.preference = preference_of(o);
  return config;
}

void check(const clora_training_options& o, const ModelConfig& model) {
  require_given(o.train, kWho, "train");
  require_given(o.adapter_out, kWho, "adapter_out");
  const auto form = preference_form_of(preference_kind_of(o.loss, kWho));
  for (const clora_records* records : {o.train, o.valid}) {
    if (records == nullptr) continue;
    require(records->records.preference == form,
            "{}: the records were read for another loss than '{}'; give both the same loss", kWho,
            o.loss == nullptr ? "sft" : o.loss);
    require_fit(records->records, model, kWho);
  }
}

// `options` and `stops` must outlive the callbacks.
TrainingCallbacks callbacks_of(const clora_training_options& options, ContextCore& context,
                               bool& stops) {
  TrainingCallbacks callbacks;
  callbacks.should_stop = [&stops] { return stops; };
  callbacks.on_step = [&](const StepResult& step, double tokens_per_s) {
    context.trained_tokens += static_cast<std::uint64_t>(step.rows);
    if (options.on_step == nullptr) return;
    const clora_step_result result = step_result_of(step);
    stops = options.on_step(options.user, &result, tokens_per_s) != 0 || stops;
  };
  if (options.on_eval != nullptr) {
    callbacks.on_eval = [&](const EvalResult& result) {
      const clora_evaluation evaluation = evaluation_of(result);
      options.on_eval(options.user, &evaluation);
    };
  }
  if (options.on_save != nullptr) {
    callbacks.on_save = [&](std::int64_t step, const std::filesystem::path& folder) {
      options.on_save(options.user, step, folder.string().c_str());
    };
  }
  return callbacks;
}

clora_training_summary summary_of(const TrainingSummary& summary) {
  clora_training_summary result{};
  result.steps = summary.steps;
  result.seconds = summary.seconds;
  result.final_loss = summary.final_loss;
  result.stopped = summary.stopped ? 1 : 0;
  result.ended_early = summary.ended_early ? 1 : 0;
  if (summary.best) {
    result.best_step = summary.best->step;
    result.best_loss = summary.best->loss;
  }
  return result;
}

TrainingSummary run(AdapterCore& adapter, const clora_training_options& options) {
  LanguageModel& model = *adapter.model->model;
  check(options, model.config());
  bool stops = false;
  TrainingRunConfig config = config_of(options);
  config.frozen_ranks = adapter.frozen_ranks;
  return run_training(model, adapter.adapter, options.train->records,
                      options.valid == nullptr ? nullptr : &options.valid->records, config,
                      options.resume_from == nullptr ? "" : options.resume_from,
                      callbacks_of(options, *adapter.model->context, stops));
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_train(clora_adapter* adapter, const clora_training_options* options,
                         clora_training_summary* summary) {
  return guarded([&] {
    require_given(adapter, kWho, "adapter");
    require_given(options, kWho, "options");
    if (summary != nullptr) require_writable(summary, kWho);
    const TrainingSummary result = run(*adapter->core, read_struct(options, kWho));
    if (summary != nullptr) write_struct(summary, summary_of(result), kWho);
  });
}
