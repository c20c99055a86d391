// TrainingReport: the output of a training run: progress bar or plain lines, JSON events, and the
// log and chart next to the adapter. Calls RunFolder::keep() at the first save of the run.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "clora/model/training/training_run.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/clora/progress_bar.hpp"
#include "tools/clora/training/run_folder.hpp"
#include "tools/clora/training/training_log.hpp"

namespace clora {

class TrainingReport {
 public:
  // `configuration` is the text of run.toml, which is written once the run has made progress.
  TrainingReport(Output& output, LoadedModel& loaded, const std::string& model, RunFolder& folder,
                 std::string configuration);
  // Writes the chart of the steps so far, also if the run ended with an error.
  ~TrainingReport();
  TrainingReport(const TrainingReport&) = delete;
  TrainingReport& operator=(const TrainingReport&) = delete;

  // data: the reports of train and valid, for the log.
  void start(const Adapter& adapter, const Records& train, const Records* valid,
             const TrainingRunConfig& config, const nlohmann::ordered_json& data);
  // At each validation, `scores` gives keys to add to its event, as RunEvaluation::scores() does.
  void score_by(std::function<nlohmann::ordered_json()> scores) { scores_ = std::move(scores); }
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
  void show_memory();

  Output& output_;
  LoadedModel& loaded_;
  std::string model_;
  std::string configuration_;
  RunFolder& folder_;
  TrainingLog log_;
  std::function<nlohmann::ordered_json()> scores_;
  std::unique_ptr<ProgressBar> bar_;
  std::filesystem::path last_checkpoint_;
  MemoryStatistics memory_;  // at the last step
};

}  // namespace clora
