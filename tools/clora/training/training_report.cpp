#include "tools/clora/training/training_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "clora/runtime/files/file.hpp"
#include "lora/adapter_norms.hpp"
#include "tools/clora/commands/embedding_task.hpp"
#include "tools/clora/report/run_page.hpp"
#include "tools/clora/training/preference_options.hpp"
#include "tools/clora/training/run_evaluation.hpp"
#include "tools/clora/training/supervised_options.hpp"
#include "tools/command_line/printable.hpp"

namespace clora {
namespace {

std::string picture_title(const std::string& model) {
  // The chart is XML, which cannot hold control characters.
  return printable(std::filesystem::path(model).filename().string());
}

nlohmann::ordered_json memory_by_tag(const MemoryStatistics& memory) {
  nlohmann::ordered_json bytes = nlohmann::ordered_json::object();
  for (std::size_t tag = 0; tag < kMemoryTags; ++tag) {
    bytes[std::string(name_of(static_cast<MemoryTag>(tag)))] = memory.by_tag[tag];
  }
  return bytes;
}

}  // namespace

TrainingReport::TrainingReport(Output& output, LoadedModel& loaded, const std::string& model,
                               RunFolder& folder, std::string configuration,
                               const ReportOptions& options)
    : output_(output),
      loaded_(loaded),
      model_(model),
      configuration_(std::move(configuration)),
      folder_(folder),
      log_(folder.path(), picture_title(model), folder.goes_on() ? folder.resumed_step() : 0),
      options_(options) {
  if (options_.page) settings_ = settings_of(configuration_);
}

TrainingReport::~TrainingReport() {
  try {
    log_.write_picture();
    write_page();
  } catch (const std::exception& error) {
    output_.warning("{}", error.what());
  }
}

void TrainingReport::write_event(const nlohmann::ordered_json& event) {
  output_.object(event);
  log_.add(event);
  if (comes_before_progress(event)) return;
  if (!configuration_.empty()) begin();
  if (event_file_) event_file_->add(event);
}

// Replaces the files of an earlier run in the folder once the new run has made progress.
void TrainingReport::begin() {
  write_file_atomically(folder_.path() / kConfigurationFile, std::exchange(configuration_, {}));
  if (log_.lines_left_out() > 0) {
    output_.warning("'{}': {} lines are not events and were dropped",
                    (folder_.path() / kLogFile).string(), log_.lines_left_out());
  }
  if (!options_.event_files) return;
  const bool is_default = options_.event_folder.empty();
  event_file_ = std::make_unique<EventFile>(
      is_default ? folder_.path() / kEventFolder : std::filesystem::path(options_.event_folder),
      folder_.resumed_step() + 1);
}

void TrainingReport::start(const Adapter& adapter, const Records& train, const Records* valid,
                           const TrainingRunConfig& config, const nlohmann::ordered_json& data) {
  adapter_ = &adapter;
  const std::int64_t steps = total_steps(config, train.data_shares());
  const std::string& device = loaded_.context().device().name;
  output_.info("{} on '{}'", model_, device);
  output_.info("{} trainable parameters in {} layers of rank {}; {} records, {} steps",
               grouped(adapter.trainable_parameters()), adapter.modules().size(),
               adapter.config().rank, grouped(static_cast<long long>(train.records.size())), steps);
  if (folder_.resumed_step() > 0) {
    output_.info("resuming after step {} of '{}'", folder_.resumed_step(),
                 folder_.checkpoint().string());
  }
  write_event({{"event", "start"},
               {"device", device},
               {"model", model_},
               {"trainable_parameters", adapter.trainable_parameters()},
               {"records", train.records.size()},
               {"valid_records", valid == nullptr ? 0 : valid->records.size()},
               {"truncated_records", train.truncated},
               {"skipped_records", train.skipped},
               {"steps", steps},
               {"resumed_step", folder_.resumed_step()},
               {"data", data}});
  progress_ = std::make_unique<TrainingProgress>(output_, steps, folder_.resumed_step());
}

void TrainingReport::show_replies(const ModelText& text, const Records& held_out) {
  const std::int64_t count = options_.shown_samples();
  if (count == 0) return;
  auto samples =
      std::make_unique<ReplySamples>(loaded_.model(), *adapter_, text.tokenizer(), held_out,
                                     text.end_ids(loaded_.model().config()), count);
  if (samples->has_prompts()) {
    samples_ = std::move(samples);
  } else if (options_.samples) {
    output_.warning("--samples: no held-out record has a prompt, so the page shows no replies");
  }
}

TrainingCallbacks TrainingReport::callbacks(const Interrupt& interrupt) {
  interrupt_ = &interrupt;
  TrainingCallbacks callbacks;
  callbacks.on_step = [this](const StepResult& result, double speed) { on_step(result, speed); };
  callbacks.on_eval = [this](const EvalResult& result) { on_eval(result); };
  callbacks.on_save = [this](std::int64_t step, const auto& folder) { on_save(step, folder); };
  callbacks.should_stop = [&interrupt] { return interrupt.requested(); };
  callbacks.on_resume = [this](const ResumePoint& point) { on_resume(point); };
  callbacks.on_shares = [this](const DeviceShares& shares) { on_shares(shares); };
  return callbacks;
}

void TrainingReport::on_step(const StepResult& result, double tokens_per_s) {
  memory_ = loaded_.context().pool().statistics();
  nlohmann::ordered_json event{{"event", "step"},
                               {"step", result.step},
                               {"loss", result.loss},
                               {"tokens", result.tokens},
                               {"learning_rate", result.learning_rate},
                               {"grad_norm", result.grad_norm},
                               {"tokens_per_s", tokens_per_s},
                               {"peak_bytes", memory_.high_water_bytes},
                               {"in_use_bytes", memory_.in_use_bytes},
                               {"seconds", progress_->seconds()}};
  std::string text = fmt::format("loss {:.4f}  ", result.loss);
  if (result.balance_loss != 0) {
    event["balance_loss"] = result.balance_loss;
    text += fmt::format("balance {:.3f}  ", result.balance_loss);
  }
  add_supervised(event, result);
  text += supervised_text(result);
  add_to(event, result.preference);
  if (!result.preference.empty()) text += text_of(result.preference) + "  ";
  write_event(event);
  // The message of the first Ctrl-C stays on the screen, below the view.
  if (interrupt_->requested() && !std::exchange(interrupted_, true)) progress_->leave();
  progress_->update(log_.record(), fmt::format("{}{:.0f} tokens/s", text, tokens_per_s));
}

void TrainingReport::add_norms(std::int64_t step) {
  const auto& earlier = log_.record().norms();
  if (!options_.wants_norms() || (!earlier.empty() && earlier.back().step == step)) return;
  nlohmann::ordered_json norms = nlohmann::ordered_json::object();
  for (const UpdateNorm& one : update_norms(*adapter_)) {
    norms[one.block < 0 ? one.target : fmt::format("{}.{}", one.block, one.target)] = one.norm;
  }
  write_event({{"event", "norms"}, {"step", step}, {"norms", std::move(norms)}});
}

void TrainingReport::add_samples(std::int64_t step) {
  if (!samples_) return;
  try {
    const auto samples = samples_->replies([this] { return interrupt_->requested(); });
    if (!samples.empty()) write_event(samples_event(step, samples));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    samples_.reset();
    progress_->clear();
    output_.warning("the page shows no further replies: {}", error.what());
  }
}

// What an evaluation shows besides its scores.
void TrainingReport::look_into(std::int64_t step) {
  add_norms(step);
  add_samples(step);
  write_page();
}

void TrainingReport::write_page() const {
  if (!options_.page || log_.record().last_step() == 0) return;
  const LoggedRun run{folder_.path().string(), log_.record(), settings_, 0};
  write_file_atomically(folder_.path() / kReportPage, run_page(run));
}

void TrainingReport::on_eval(const EvalResult& result) {
  nlohmann::ordered_json event{
      {"event", "eval"}, {"step", result.step}, {"loss", result.loss}, {"tokens", result.tokens}};
  const bool of_texts =
      !result.embedding.recall && !result.embedding.spearman && result.preference.empty();
  if (of_texts) event["perplexity"] = std::exp(result.loss);
  add_to(event, result.embedding);
  add_to(event, result.preference);
  progress_->clear();
  if (result.tokens > 0) {
    output_.info("step {}  held-out loss {:.4f}{} over {} {}, {:.1f} s", result.step, result.loss,
                 of_texts ? fmt::format(", perplexity {:.4f},", std::exp(result.loss)) : "",
                 grouped(result.tokens),
                 result.embedding.recall     ? "anchors"
                 : result.preference.empty() ? "tokens"
                                             : "pairs or answers",
                 result.seconds);
  }
  std::string text =
      result.preference.empty() ? text_of(result.embedding) : text_of(result.preference);
  if (scores_) {
    const nlohmann::ordered_json scores = scores_();
    event.update(scores);
    text += text_of_scores(scores);
  }
  write_event(event);
  if (!text.empty()) output_.info("step {}  held-out {}", result.step, text);
  look_into(result.step);
}

void TrainingReport::on_save(std::int64_t step, const std::filesystem::path& folder) {
  last_checkpoint_ = folder;
  if (step > folder_.resumed_step()) folder_.keep();
  write_event({{"event", "save"}, {"step", step}, {"checkpoint", folder.string()}});
  log_.write_picture();
  write_page();
  progress_->clear();
  output_.info("step {}  checkpoint in {}", step, folder.string());
}

void TrainingReport::on_resume(const ResumePoint& point) {
  if (!point.changes_length()) return;
  write_event(
      {{"event", "length"}, {"steps", point.steps_now}, {"steps_before", point.steps_then}});
  progress_->clear();
  output_.info("the run is {} from {} to {} steps; the learning rates of the first {} are the same",
               point.steps_now > point.steps_then ? "extended" : "shortened",
               grouped(point.steps_then), grouped(point.steps_now), grouped(point.step));
}

void TrainingReport::on_shares(const DeviceShares& shares) {
  if (!shares.blocks.empty()) return on_stages(shares);
  write_event({{"event", "devices"},
               {"devices", shares.devices},
               {"shares", shares.shares},
               {"measured", shares.measured}});
  progress_->clear();
  for (std::size_t rank = 0; rank < shares.devices.size(); ++rank) {
    output_.info("rank {}: '{}', share {}{}", rank, shares.devices[rank], shares.shares[rank],
                 shares.measured ? ", by its measured speed" : "");
  }
}

void TrainingReport::on_stages(const DeviceShares& shares) {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  for (const BlockRange& range : shares.blocks) blocks.push_back({range.begin, range.end});
  write_event({{"event", "devices"}, {"devices", shares.devices}, {"blocks", blocks}});
  progress_->clear();
  for (std::size_t rank = 0; rank < shares.devices.size(); ++rank) {
    output_.info("rank {}: '{}', blocks {} to {}", rank, shares.devices[rank],
                 shares.blocks[rank].begin, shares.blocks[rank].end - 1);
  }
}

// The moments and the recorded steps are freed by now, so the parts are those of the last step.
void TrainingReport::show_memory() {
  std::string parts;
  for (std::size_t tag = 0; tag < kMemoryTags; ++tag) {
    if (memory_.by_tag[tag] == 0) continue;
    parts += fmt::format("{}{} {}", parts.empty() ? "; at the last step: " : ", ",
                         name_of(static_cast<MemoryTag>(tag)),
                         readable_bytes(static_cast<double>(memory_.by_tag[tag])));
  }
  const std::size_t peak = loaded_.context().pool().statistics().high_water_bytes;
  output_.info("peak device memory {}{}", readable_bytes(static_cast<double>(peak)), parts);
}

void TrainingReport::show_best(const TrainingSummary& summary) {
  if (summary.ended_early) {
    output_.info("step {}  ended early: the held-out loss has not improved since step {}",
                 summary.steps, summary.best->step);
  }
  if (!summary.best) return;
  output_.info("the adapter is that of step {}, with the lowest held-out loss {:.4f}",
               summary.best->step, summary.best->loss);
}

void TrainingReport::done(const TrainingSummary& summary) {
  progress_->finish(log_.record());
  folder_.keep();
  add_norms(summary.steps);
  const std::string adapter = folder_.path().string();
  nlohmann::ordered_json event({{"event", "done"},
                                {"steps", summary.steps},
                                {"seconds", summary.seconds},
                                {"adapter", adapter},
                                {"stopped", summary.stopped},
                                {"ended_early", summary.ended_early},
                                {"memory_bytes", memory_by_tag(memory_)}});
  if (!summary.idle_shares.empty()) event["idle_shares"] = summary.idle_shares;
  if (summary.best) {
    event["best_step"] = summary.best->step;
    event["best_loss"] = summary.best->loss;
  }
  write_event(event);
  show_best(summary);
  output_.result("{} after {} steps in {}: loss {:.4f}, adapter in {}",
                 summary.stopped ? "stopped" : "done", summary.steps, clock_time(summary.seconds),
                 summary.final_loss, adapter);
  show_memory();
  if (!summary.stopped) return;
  output_.result("resume with: clora train --config {}/run.toml --resume {}", adapter,
                 (last_checkpoint_.empty() ? folder_.path() : last_checkpoint_).string());
}

}  // namespace clora
