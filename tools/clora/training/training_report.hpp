// TrainingReport: the output of a training run: a view on the terminal or plain lines, JSON events,
// and next to the adapter the log, the chart, and by option the page of --report and event files.
// Calls RunFolder::keep() at the first save of the run.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "clora/model/training/training_run.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/clora/report/event_file.hpp"
#include "tools/clora/training/reply_samples.hpp"
#include "tools/clora/training/report_options.hpp"
#include "tools/clora/training/run_folder.hpp"
#include "tools/clora/training/training_log.hpp"
#include "tools/clora/training/training_progress.hpp"

namespace clora {

class TrainingReport {
 public:
  // `configuration` is the text of run.toml, which is written once the run has made progress. Must
  // not outlive its arguments.
  TrainingReport(Output& output, LoadedModel& loaded, const std::string& model, RunFolder& folder,
                 std::string configuration, const ReportOptions& options);
  // Writes the chart and the page of the steps so far, also if the run ended with an error.
  ~TrainingReport();
  TrainingReport(const TrainingReport&) = delete;
  TrainingReport& operator=(const TrainingReport&) = delete;

  // data: the reports of train and valid, for the log. Must not outlive the adapter.
  void start(const Adapter& adapter, const Records& train, const Records* valid,
             const TrainingRunConfig& config, const nlohmann::ordered_json& data);
  // At each validation, `scores` gives keys to add to its event, as RunEvaluation::scores() does.
  void score_by(std::function<nlohmann::ordered_json()> scores) { scores_ = std::move(scores); }
  // Shows replies to prompts of `held_out` at each evaluation, if the options want them. Must not
  // outlive `text`.
  void show_replies(const ModelText& text, const Records& held_out);
  // The callbacks hold references to this object and to `interrupt`.
  TrainingCallbacks callbacks(const Interrupt& interrupt);
  void done(const TrainingSummary& summary);

 private:
  void write_event(const nlohmann::ordered_json& event);
  void begin();
  void on_step(const StepResult& result, double tokens_per_s);
  void on_eval(const EvalResult& result);
  void on_save(std::int64_t step, const std::filesystem::path& folder);
  void on_resume(const ResumePoint& point);
  void show_best(const TrainingSummary& summary);
  void on_shares(const DeviceShares& shares);
  void on_stages(const DeviceShares& shares);
  void show_memory();
  void look_into(std::int64_t step);
  void add_norms(std::int64_t step);
  void add_samples(std::int64_t step);
  void write_page() const;

  Output& output_;
  LoadedModel& loaded_;
  std::string model_;
  std::string configuration_;
  RunFolder& folder_;
  TrainingLog log_;
  std::function<nlohmann::ordered_json()> scores_;
  const ReportOptions& options_;
  std::vector<std::pair<std::string, std::string>> settings_;  // if there is a page
  const Adapter* adapter_ = nullptr;
  const Interrupt* interrupt_ = nullptr;
  std::unique_ptr<ReplySamples> samples_;  // if they are shown
  std::unique_ptr<EventFile> event_file_;  // if there is one, from the first progress on
  std::unique_ptr<TrainingProgress> progress_;
  bool interrupted_ = false;
  std::filesystem::path last_checkpoint_;
  MemoryStatistics memory_;  // at the last step
};

}  // namespace clora
