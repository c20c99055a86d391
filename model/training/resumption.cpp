#include "clora/model/training/resumption.hpp"

#include <algorithm>

#include "model/training/run_ranks.hpp"
#include "runtime/fail.hpp"
#include "runtime/parse_integer.hpp"

namespace clora {
namespace {

constexpr const char* kSteps = "steps";

template <class T>
FingerprintSetting setting(const char* name, const T& value) {
  return {name, fmt::format("{}", value)};
}

void append(Fingerprint& fingerprint, const Fingerprint& more) {
  fingerprint.insert(fingerprint.end(), more.begin(), more.end());
}

// Without what has its default value, as in checkpoints of earlier versions.
Fingerprint fingerprint_of(const OptimizerConfig& c) {
  Fingerprint settings;
  const auto add = [&](const char* name, const auto& value, const auto& usual) {
    if (value != usual) settings.push_back(setting(name, value));
  };
  const OptimizerConfig usual{.kind = c.kind};
  add("optimizer", name_of(c.kind), name_of(OptimizerKind::adamw));
  add("beta1", beta1_of(c), beta1_of(usual));
  add("beta2", beta2_of(c), beta2_of(usual));
  add("epsilon", c.epsilon, usual.epsilon);
  add("momentum", momentum_of(c), momentum_of(usual));
  add("Nesterov's momentum", c.nesterov, usual.nesterov);
  add("LoRA+ ratio", c.loraplus_lr_ratio, usual.loraplus_lr_ratio);
  add("learning rate of modules trained in full, relative", c.saved_lr_ratio, usual.saved_lr_ratio);
  return settings;
}

void add_preference(Fingerprint& settings, const PreferenceLoss& loss) {
  const auto& [kind, beta, smoothing, desirable, undesirable] = loss.formula;
  append(settings, {setting("loss", name_of(kind)), setting("beta", beta),
                    setting("label smoothing of preferences", smoothing),
                    setting("weight of desirable answers", desirable),
                    setting("weight of undesirable answers", undesirable)});
}

void add_contrastive(Fingerprint& settings, const ContrastiveLoss& loss) {
  settings.push_back(setting("contrastive scale", loss.scale));
  settings.push_back(setting("pooling", static_cast<int>(loss.pooling)));
}

void add_supervised(Fingerprint& settings, const SupervisedLoss& loss) {
  if (loss.label_smoothing > 0) {
    settings.push_back(setting("label smoothing", loss.label_smoothing));
  }
  if (loss.z_loss > 0) settings.push_back(setting("weight of the z-loss", loss.z_loss));
  if (loss.neftune_alpha > 0) settings.push_back(setting("NEFTune alpha", loss.neftune_alpha));
}

// Checkpoints of blocks give the same bits.
void add_policy(Fingerprint& settings, const MemoryPolicy& policy) {
  if (policy.feed_forward_rows > 0) {
    settings.push_back(setting("rows of a feed-forward tile", policy.feed_forward_rows));
  }
  if (policy.saved != SavedType::as_computed) {
    settings.push_back(setting("type of saved activations", name_of(policy.saved)));
  }
}

// What a run and a trainer have in common, in the order of checkpoints.
template <class Config>  // TrainerConfig or TrainingRunConfig
void add_update_and_losses(Fingerprint& settings, const Config& c) {
  if (c.frozen_ranks > 0) settings.push_back(setting("frozen ranks", c.frozen_ranks));
  if (c.average_decay > 0) settings.push_back(setting("decay of the average", c.average_decay));
  if (c.contrastive) add_contrastive(settings, *c.contrastive);
  if (c.preference) add_preference(settings, *c.preference);
  add_supervised(settings, c.supervised);
}

Fingerprint fingerprint_of(const TrainerConfig& c) {
  Fingerprint settings{setting("weight decay", c.weight_decay), setting("clip norm", c.clip_norm),
                       setting("dropout seed", c.dropout_seed)};
  add_update_and_losses(settings, c);
  if (c.router_aux_loss_coef > 0) {
    settings.push_back(setting("router aux loss coef", c.router_aux_loss_coef));
  }
  add_policy(settings, c.policy);
  append(settings, fingerprint_of(c.optimizer));
  return settings;
}

Fingerprint fingerprint_of(const TrainingRunConfig& c, const Records& records) {
  Fingerprint settings{setting("batch size", c.batch_size),
                       setting("gradient accumulation", c.grad_accumulation),
                       setting("shuffle", c.shuffle ? "yes" : "no"),
                       setting("seed", c.seed),
                       setting("learning rate", c.learning_rate),
                       setting("schedule", name_of(c.schedule)),
                       setting("warm-up steps", c.warmup_steps),
                       setting(kSteps, total_steps(c, records.data_shares())),
                       setting("weight decay", c.weight_decay),
                       setting("clip norm", c.clip_norm),
                       setting("max sequence length", c.max_seq_length)};
  // Checkpoints of earlier versions have none of what follows.
  add_update_and_losses(settings, c);
  if (c.warmup_share > 0) settings.push_back(setting("warm-up share", c.warmup_share));
  if (c.schedule == Schedule::wsd) settings.push_back(setting("decay share", c.decay_share));
  if (c.min_rate_share > 0) settings.push_back(setting("minimum rate share", c.min_rate_share));
  if (c.router_aux_loss_coef > 0) {
    settings.push_back(setting("router aux loss coef", c.router_aux_loss_coef));
  }
  add_policy(settings, c.policy);
  append(settings, fingerprint_of(c.optimizer));
  return settings;
}

Fingerprint without_steps(Fingerprint fingerprint) {
  // The devices do not matter: others give the same results but for rounding.
  std::erase_if(fingerprint, [](const FingerprintSetting& s) {
    return s.name == kSteps || s.name == kDevicesSetting || s.name == kSharesSetting;
  });
  return fingerprint;
}

std::int64_t steps_of(const Fingerprint& fingerprint, const std::filesystem::path& file) {
  const std::string_view text = value_of(fingerprint, kSteps);
  const auto steps = parse_integer(text);
  if (!steps || *steps < 1 || *steps > kMaxSteps) {
    fail(ErrorCode::invalid_file,
         "checkpoint: the number of steps of the run of '{}' must be from 1 to {}, got '{}'",
         file.string(), kMaxSteps, text.substr(0, 40));
  }
  return *steps;
}

void require_same_rates(const ResumePoint& point, const TrainingRunConfig& config) {
  require(same_rates(config, point.step, point.steps_then, point.steps_now),
          "checkpoint: '{}' is from a run of {} steps, but this run has {}: with the {} schedule, "
          "the learning rates of the {} completed steps would differ; resume with `steps` {}, or "
          "start a new run from its adapter",
          point.folder.string(), point.steps_then, point.steps_now, name_of(config.schedule),
          point.step, point.steps_then);
}

}  // namespace

Fingerprint fingerprint_of_run(const LanguageModel& model, const Adapter& adapter,
                               const Records& train, const TrainingRunConfig& config) {
  Fingerprint fingerprint = fingerprint_of(config, train);
  append(fingerprint, fingerprint_of(adapter));
  append(fingerprint, fingerprint_of(train));
  append(fingerprint, fingerprint_of(model));
  return fingerprint;
}

Fingerprint fingerprint_of_trainer(const LanguageModel& model, const Adapter& adapter,
                                   const TrainerConfig& config) {
  Fingerprint fingerprint = fingerprint_of(config);
  append(fingerprint, fingerprint_of(adapter));
  append(fingerprint, fingerprint_of(model));
  return fingerprint;
}

ResumePoint resume_point(const Checkpoint& checkpoint, const Fingerprint& fingerprint,
                         const TrainingRunConfig& config) {
  require_no_differences(
      checkpoint, differences(without_steps(checkpoint.fingerprint), without_steps(fingerprint)));
  const ResumePoint point{.step = checkpoint.state.step,
                          .steps_then = steps_of(checkpoint.fingerprint, checkpoint.file),
                          .steps_now = steps_of(fingerprint, checkpoint.file),
                          .folder = checkpoint.file.parent_path()};
  if (point.step > point.steps_then) {
    fail(ErrorCode::invalid_file,
         "checkpoint: the step of '{}' must be from 0 to the {} steps of its run, got {}",
         checkpoint.file.string(), point.steps_then, point.step);
  }
  require(point.step <= point.steps_now,
          "checkpoint: '{}' is from step {}, but the run has only {} steps; resume with at least "
          "as many steps as the checkpoint",
          checkpoint.file.string(), point.step, point.steps_now);
  require_same_rates(point, config);
  return point;
}

ResumePoint check_resume(const std::filesystem::path& folder, const LanguageModel& model,
                         const Adapter& adapter, const Records& train,
                         const TrainingRunConfig& config) {
  return resume_point(read_checkpoint(folder), fingerprint_of_run(model, adapter, train, config),
                      config);
}

}  // namespace clora
