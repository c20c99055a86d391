#include "clora/model/training/training_run.hpp"

#include <algorithm>
#include <chrono>
#include <deque>

#include "clora/model/adapter_files/adapter_files.hpp"
#include "model/training/best_adapter.hpp"
#include "model/training/preference_run.hpp"
#include "model/training/result_files.hpp"
#include "model/training/run_ranks.hpp"
#include "model/transformer/finite_check.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Between comparisons of the parameters of all ranks, which take about as long as a step.
constexpr std::int64_t kStepsBetweenChecks = 100;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A step without a labelled token would fail, perhaps hours into the run.
void require_targets(const Records& train, const Records* valid) {
  for (std::size_t i = 0; i < train.records.size(); ++i) {
    if (has_target(train.records[i])) continue;
    fail(ErrorCode::invalid_data,
         "training: record {} has no token that counts towards the loss; leave it out", i + 1);
  }
  if (!train.scores.empty()) {
    fail(ErrorCode::invalid_data,
         "training: scored pairs have no contrastive loss; records need \"anchor\" and "
         "\"positive\"");
  }
  if (valid != nullptr) require_any_target(*valid, "training: the held-out records");
}

void require_folder(const TrainingRunConfig& config) {
  if (!config.adapter_out.empty()) return;
  require(config.save_every == 0 && config.average_decay == 0,
          "training: checkpoints and the average of the adapter are saved to `adapter_out`, which "
          "is empty");
}

void require_held_out_loss(const Records* valid) {
  if (valid != nullptr && valid->scores.empty()) return;
  fail(ErrorCode::invalid_data,
       "training: early stopping requires held-out records with a loss, got {}",
       valid == nullptr ? "none" : "scored pairs, which have none");
}

// Rows per second over the last few steps. A single step is no good measure: steps are enqueued
// ahead of the device, so its end is observed early or late.
class RecentSpeed {
 public:
  void restart() { ends_.assign(1, {seconds_now(), 0}); }
  double after(std::int64_t rows) {
    if (ends_.size() > kSteps) ends_.pop_front();
    ends_.push_back({seconds_now(), rows});
    std::int64_t sum = 0;
    for (std::size_t i = 1; i < ends_.size(); ++i) sum += ends_[i].rows;
    return static_cast<double>(sum) / std::max(ends_.back().seconds - ends_.front().seconds, 1e-9);
  }

 private:
  static constexpr std::size_t kSteps = 8;
  struct End {
    double seconds;
    std::int64_t rows;
  };
  std::deque<End> ends_;
};

// The state of one run between its steps.
class Run {
 public:
  Run(LanguageModel& model, Adapter& adapter, const Records& train, const Records* valid,
      const TrainingRunConfig& config, const TrainingCallbacks& callbacks)
      : model_(model),
        adapter_(adapter),
        train_(train),
        valid_(valid),
        config_(config),
        callbacks_(callbacks),
        ranks_(config.ranks, model),
        trainer_(model, adapter, trainer_config(config)),
        evaluator_(model, &adapter, trainer_.arena(), config.contrastive, config.policy),
        order_(order_of(config, train.data_shares())),
        total_(total_steps(config, train.data_shares())),
        fingerprint_(fingerprint_of_run(model, adapter, train, config)) {
    ranks_.require_same_run(fingerprint_);
    require_format_holds(adapter, config.adapter_format, model.config());
    require_folder(config);
    require_targets(train, valid);
    if (config.preference) {
      preferences_.emplace(model, adapter, trainer_.arena(), train, valid, config);
    }
    if (config.patience == 0) return;
    require_held_out_loss(valid);
    best_.emplace(adapter, config.patience, config.min_improvement);
  }

  // The reference of a preference loss: the model before the first step, and thus before resume().
  void compute_reference() {
    if (!preferences_ || !preferences_->has_reference()) return;
    prepare_largest();
    if (!check_stop()) preferences_->compute_reference([this] { return check_stop(); });
  }

  void resume(const std::filesystem::path& folder) {
    const Checkpoint checkpoint = read_checkpoint(folder);
    const ResumePoint point = resume_point(checkpoint, fingerprint_, config_);
    restore_checkpoint(checkpoint, adapter_, trainer_);
    resumed_from_ = checkpoint.fingerprint;
    if (best_) {
      best_->load(folder);
      evaluated_at_ = best_->noted_step();
    }
    if (callbacks_.on_resume) callbacks_.on_resume(point);
  }

  TrainingSummary run() {
    const double begin = seconds_now();
    const std::int64_t first = trainer_.steps();
    prepare_largest();
    choose_shares();
    if (check_stop()) return {.steps = first, .stopped = true};  // there is nothing new to save
    speed_.restart();
    while (trainer_.steps() < total_ && !stopped_ && !ends_early()) {
      enqueue_next();
      after_step();
      check_stop();
    }
    report(trainer_.drain());
    require_finite_adapter();
    if (best_ && is_evaluation_due()) evaluate();
    if ((stopped_ && !config_.adapter_out.empty()) || config_.save_every > 0) save_as_checkpoint();
    save_average();
    save_last_adapter();
    if (!stopped_) evaluate();  // last, so the adapter is saved even if it fails
    save_best_adapter();
    return {.steps = trainer_.steps(),
            .seconds = seconds_now() - begin,
            .stopped = stopped_,
            .final_loss = final_loss_,
            .ended_early = ends_early() && trainer_.steps() < total_,
            .best = best_result(),
            .idle_shares = ranks_.idle_shares(trainer_)};
  }

 private:
  PackedRows pack(std::span<const std::size_t> records) const {
    if (preferences_) return preferences_->pack(records);
    return pack_for(config_.contrastive, model_.config(), train_, records);
  }

  std::vector<PackedRows> rows_of(std::int64_t step) {
    std::vector<PackedRows> batches;
    for (const auto& indices : order_.micro_batches(static_cast<std::size_t>(step))) {
      batches.push_back(pack(indices));
    }
    return batches;
  }

  // Of this rank alone.
  bool notes_stop() {
    stopped_ = stopped_ || (callbacks_.should_stop && callbacks_.should_stop());
    return stopped_;
  }

  bool check_stop() {
    stopped_ = ranks_.any(notes_stop());
    return stopped_;
  }

  void choose_shares() {
    ranks_.require_same_parameters(adapter_, trainer_.steps());
    if (ranks_.communicator() == nullptr) return;
    const PackedRows sample = rows_of(trainer_.steps()).front();
    const DeviceShares* shares = ranks_.choose_shares(trainer_, sample, config_.grad_accumulation,
                                                      config_.device_shares, resumed_from_);
    const Fingerprint of_ranks = ranks_.settings();
    fingerprint_.insert(fingerprint_.end(), of_ranks.begin(), of_ranks.end());
    if (callbacks_.on_shares) callbacks_.on_shares(*shares);
  }

  // The step with the most rows determines the size of the memory that all others share.
  void prepare_largest() {
    const WantedRows most = largest_step(model_.config(), train_, config_, trainer_.steps(),
                                         [this] { return notes_stop(); });
    if (most.rows > 0 && !stopped_) trainer_.prepare(most);
  }

  void enqueue_next() {
    const std::int64_t step = trainer_.steps();
    report(trainer_.step(rows_of(step), learning_rate_at(config_, step + 1, total_)));
  }

  void report(const std::optional<StepResult>& result) {
    if (!result.has_value()) return;
    final_loss_ = result->loss;
    const double tokens_per_s = speed_.after(result->rows);
    if (callbacks_.on_step) callbacks_.on_step(*result, tokens_per_s);
  }

  void save(const Adapter& adapter, const std::filesystem::path& folder) const {
    save_result(adapter, config_.adapter_format, model_.config(), folder);
  }

  void save_last_adapter() const {
    if (ranks_.is_first() && !config_.adapter_out.empty()) save(adapter_, config_.adapter_out);
  }

  void save_average() {
    if (config_.average_decay == 0 || !ranks_.is_first()) return;
    const Adapter averaged(adapter_.context(), adapter_.modules(), adapter_.config(),
                           adapter_.saved_tensors());
    const std::vector<float> values = trainer_.average();
    adapter_.context().write(averaged.parameters(), std::as_bytes(std::span(values)));
    save(averaged, config_.adapter_out / "ema");
  }

  // The last step's loss may be finite while its update is not.
  void require_finite_adapter() const {
    const auto matrix = adapter_not_finite(adapter_);
    if (!matrix) return;
    fail(ErrorCode::diverged,
         "training: after step {} the adapter's {}: the run diverged; lower `learning_rate` or set "
         "`clip_norm`; the last checkpoint is unchanged",
         trainer_.steps(), *matrix);
  }

  void compare_ranks() {
    if (ranks_.communicator() == nullptr || trainer_.steps() % kStepsBetweenChecks != 0) return;
    report(trainer_.drain());
    ranks_.require_same_parameters(adapter_, trainer_.steps());
  }

  void after_step() {
    const std::int64_t step = trainer_.steps();
    compare_ranks();
    if (step == total_) return;
    // A checkpoint must hold what a validation says about early stopping; else it is saved first,
    // in case that the validation fails.
    if (best_) evaluate_between_steps();
    if (config_.save_every > 0 && step % config_.save_every == 0) {
      report(trainer_.drain());
      save_as_checkpoint();
    }
    evaluate_between_steps();
  }

  bool is_evaluation_due() const {
    return config_.eval_every > 0 && trainer_.steps() % config_.eval_every == 0;
  }

  void evaluate_between_steps() {
    if (!is_evaluation_due()) return;
    report(trainer_.drain());
    evaluate();
    speed_.restart();
  }

  void evaluate() {
    if (valid_ == nullptr || evaluated_at_ == trainer_.steps()) return;
    evaluated_at_ = trainer_.steps();
    EvalResult result = evaluated();
    result.step = trainer_.steps();
    if (best_) best_->note(result.step, result.loss);
    if (callbacks_.on_eval) callbacks_.on_eval(result);
  }

  bool ends_early() const { return best_ && best_->should_stop(); }

  std::optional<EvalResult> best_result() const {
    if (!best_ || !best_->exists()) return std::nullopt;
    return EvalResult{.step = best_->step(), .loss = best_->loss()};
  }

  void save_best_adapter() {
    if (!best_ || !best_->exists() || best_->step() == trainer_.steps()) return;
    best_->restore();
    save_last_adapter();
  }

  EvalResult evaluated() {
    if (preferences_) return preferences_->evaluate();
    // Negatives are then as many as in training.
    const auto batch = static_cast<std::size_t>(config_.batch_size);
    return evaluator_.evaluate(*valid_, config_.contrastive ? batch : Evaluator::kAnyCount,
                               ranks_.communicator());
  }

  void save_as_checkpoint() {
    if (saved_at_ == trainer_.steps()) return;
    saved_at_ = trainer_.steps();
    ranks_.require_same_parameters(adapter_, trainer_.steps());
    if (!ranks_.is_first()) return;
    const auto folder = config_.adapter_out / fmt::format("checkpoint-{}", trainer_.steps());
    if (best_) best_->save(folder);  // first, since the checkpoint's own file completes it
    save_checkpoint(folder, adapter_, trainer_, fingerprint_);
    if (callbacks_.on_save) callbacks_.on_save(trainer_.steps(), folder);
    speed_.restart();
  }

  LanguageModel& model_;
  Adapter& adapter_;
  const Records& train_;
  const Records* valid_;
  const TrainingRunConfig& config_;
  const TrainingCallbacks& callbacks_;
  RunRanks ranks_;
  Fingerprint resumed_from_;  // of the checkpoint; empty for a new run
  Trainer trainer_;
  Evaluator evaluator_;
  std::optional<PreferenceRun> preferences_;
  DataOrder order_;
  std::int64_t total_;
  Fingerprint fingerprint_;
  std::optional<BestAdapter> best_;  // with early stopping
  RecentSpeed speed_;
  double final_loss_ = 0;
  std::int64_t evaluated_at_ = -1;
  std::int64_t saved_at_ = -1;
  bool stopped_ = false;
};

}  // namespace

TrainerConfig trainer_config(const TrainingRunConfig& config) {
  return {.optimizer = config.optimizer,
          .weight_decay = config.weight_decay,
          .clip_norm = config.clip_norm,
          .average_decay = config.average_decay,
          .dropout_seed = static_cast<std::uint32_t>(config.seed),
          .frozen_ranks = config.frozen_ranks,
          .router_aux_loss_coef = config.router_aux_loss_coef,
          .contrastive = config.contrastive,
          .preference = config.preference,
          .supervised = config.supervised,
          .gradient_noise = config.gradient_noise,
          .policy = config.policy,
          .ranks = config.ranks};
}

TrainingSummary run_training(LanguageModel& model, Adapter& adapter, const Records& train,
                             const Records* valid, const TrainingRunConfig& config,
                             const std::filesystem::path& resume_from,
                             const TrainingCallbacks& callbacks) {
  Run run(model, adapter, train, valid, config, callbacks);
  run.compute_reference();
  if (!resume_from.empty()) run.resume(resume_from);
  return run.run();
}

}  // namespace clora
