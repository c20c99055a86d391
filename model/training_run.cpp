#include "model/training_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <numbers>

#include "lora/peft_files.hpp"
#include "model/checkpoint.hpp"
#include "model/data_order.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::size_t window_of(const LanguageModel& model) {
  return static_cast<std::size_t>(model.config().sliding_window.value_or(0));
}

DataOrder order_of(const TrainingRunConfig& config, std::size_t records) {
  require(config.batch_size > 0 && config.grad_accumulation > 0,
          "training: batch size and gradient accumulation must be at least 1, got {} and {}",
          config.batch_size, config.grad_accumulation);
  return {records, static_cast<std::size_t>(config.batch_size),
          static_cast<std::size_t>(config.grad_accumulation), config.shuffle, config.seed};
}

RunFingerprint fingerprint_of(const TrainingRunConfig& c, const Adapter& adapter,
                              std::size_t records) {
  return fmt::format(
      "records {}, batch size {}, accumulation {}, shuffle {}, seed {}, learning rate {}, schedule "
      "{}, "
      "warm-up {}, steps {}, weight decay {}, clip norm {}, dropout {}, trainable parameters {}",
      records, c.batch_size, c.grad_accumulation, c.shuffle, c.seed, c.learning_rate,
      static_cast<int>(c.schedule), c.warmup_steps, total_steps(c, records), c.weight_decay,
      c.clip_norm, adapter.config().dropout, adapter.trainable_parameters());
}

// Rows a second over the last few steps: one step's end is seen late or early, since steps are
// enqueued ahead of the device.
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
        trainer_(model, adapter,
                 {.weight_decay = config.weight_decay,
                  .clip_norm = config.clip_norm,
                  .dropout_seed = static_cast<std::uint32_t>(config.seed)}),
        evaluator_(model, &adapter, trainer_.arena()),
        order_(order_of(config, train.records.size())),
        total_(total_steps(config, train.records.size())),
        fingerprint_(fingerprint_of(config, adapter, train.records.size())) {}

  void resume(const std::filesystem::path& folder) {
    restore_checkpoint(folder, adapter_, trainer_, fingerprint_);
  }

  TrainingSummary run() {
    const double begin = seconds_now();
    prepare_largest();
    speed_.restart();
    while (trainer_.steps() < total_ && !stopped_) {
      enqueue_next();
      after_step();
      stopped_ = callbacks_.should_stop && callbacks_.should_stop();
    }
    report(trainer_.drain());
    if (!stopped_) evaluate_if_due(true);
    if (stopped_) save_as_checkpoint();
    save_adapter(adapter_, config_.adapter_out);
    return {.steps = trainer_.steps(),
            .seconds = seconds_now() - begin,
            .stopped = stopped_,
            .final_loss = final_loss_};
  }

 private:
  std::vector<PackedRows> rows_of(std::int64_t step) {
    std::vector<PackedRows> batches;
    for (const auto& indices : order_.micro_batches(static_cast<std::size_t>(step))) {
      batches.push_back(pack_records(train_, indices, window_of(model_)));
    }
    return batches;
  }

  // The step with the most rows sizes the memory that all others share.
  void prepare_largest() {
    std::vector<std::size_t> largest;  // records
    std::size_t most_rows = 0;
    std::size_t most_counted = 0;
    for (std::int64_t step = trainer_.steps(); step < total_; ++step) {
      for (const auto& indices : order_.micro_batches(static_cast<std::size_t>(step))) {
        std::size_t rows = 0;
        std::size_t counted = 0;
        for (const std::size_t index : indices) {
          const Record& record = train_.records[index];
          rows += record.ids.size();
          counted += static_cast<std::size_t>(std::ranges::count(record.is_target, 1));
        }
        if (rows > most_rows) largest.assign(indices.begin(), indices.end());
        most_rows = std::max(most_rows, rows);
        most_counted = std::max(most_counted, counted);
      }
    }
    if (most_rows == 0) return;
    WantedRows most = wanted_rows(pack_records(train_, largest, window_of(model_)));
    most.counted = most_counted;
    trainer_.prepare(most);
  }

  void enqueue_next() {
    const std::int64_t step = trainer_.steps();
    report(trainer_.step(rows_of(step), learning_rate_at(config_, step + 1, total_)));
  }

  void report(const std::optional<StepResult>& result) {
    if (!result.has_value()) return;
    if (!std::isfinite(result->loss) || !std::isfinite(result->grad_norm)) {
      fail(ErrorCode::diverged,
           "training: step {} gave loss {} and gradient norm {}; lower --lr or set --clip-norm; "
           "what "
           "was saved last is untouched",
           result->step, result->loss, result->grad_norm);
    }
    final_loss_ = result->loss;
    const double tokens_per_s = speed_.after(result->rows);
    if (callbacks_.on_step) callbacks_.on_step(*result, tokens_per_s);
  }

  void after_step() {
    const std::int64_t step = trainer_.steps();
    if (config_.eval_every > 0 && step % config_.eval_every == 0) {
      report(trainer_.drain());
      evaluate_if_due(false);
    }
    if (config_.save_every > 0 && step % config_.save_every == 0 && step < total_) {
      report(trainer_.drain());
      save_as_checkpoint();
    }
  }

  void evaluate_if_due(bool at_end) {
    if (valid_ == nullptr || evaluated_at_ == trainer_.steps()) return;
    evaluated_at_ = trainer_.steps();
    EvalResult result = evaluator_.evaluate(*valid_);
    result.step = trainer_.steps();
    if (callbacks_.on_eval) callbacks_.on_eval(result);
    if (!at_end) speed_.restart();
  }

  void save_as_checkpoint() {
    const auto folder = config_.adapter_out / fmt::format("checkpoint-{}", trainer_.steps());
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
  Trainer trainer_;
  Evaluator evaluator_;
  DataOrder order_;
  std::int64_t total_;
  RunFingerprint fingerprint_;
  RecentSpeed speed_;
  double final_loss_ = 0;
  std::int64_t evaluated_at_ = -1;
  bool stopped_ = false;
};

}  // namespace

double learning_rate_at(const TrainingRunConfig& config, std::int64_t step, std::int64_t total) {
  if (step <= config.warmup_steps) {
    return config.learning_rate * static_cast<double>(step) /
           static_cast<double>(config.warmup_steps);
  }
  // The share of the decay that lies behind; 1 would be reached one step after the last.
  const double done = static_cast<double>(step - 1 - config.warmup_steps) /
                      static_cast<double>(std::max<std::int64_t>(1, total - config.warmup_steps));
  switch (config.schedule) {
    case Schedule::linear:
      return config.learning_rate * (1 - done);
    case Schedule::cosine:
      return config.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Schedule::constant:
      break;
  }
  return config.learning_rate;
}

std::int64_t total_steps(const TrainingRunConfig& config, std::size_t records) {
  if (config.steps > 0) return config.steps;
  const auto per_epoch = static_cast<double>(order_of(config, records).steps_per_epoch());
  return std::max<std::int64_t>(1, std::llround(per_epoch * config.epochs));
}

TrainingSummary run_training(LanguageModel& model, Adapter& adapter, const Records& train,
                             const Records* valid, const TrainingRunConfig& config,
                             const std::filesystem::path& resume_from,
                             const TrainingCallbacks& callbacks) {
  Run run(model, adapter, train, valid, config, callbacks);
  if (!resume_from.empty()) run.resume(resume_from);
  return run.run();
}

}  // namespace clora
