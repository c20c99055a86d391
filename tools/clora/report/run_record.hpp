// RunRecord: what the events of a training run (log.jsonl) say, as series of numbers and facts.
//
// Every number of an event that has a step becomes a series, so a new field of an event needs no
// change here: {"event":"eval","step":4,"loss":1.2,"rewards":{"margin":0.1}} adds a point to "loss"
// and one to "margin" in the group "rewards"; "rewards/margin" as a key is the same. Events "save",
// "norms" and "samples" are kept as such. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/clora/report/series.hpp"

namespace clora {

constexpr const char* kLogFile = "log.jsonl";
constexpr const char* kConfigurationFile = "run.toml";

// Replies to a prompt of the held-out records.
struct ReplySample {
  std::string prompt, wanted, base, adapter;
};
struct SamplesAtStep {
  std::int64_t step = 0;
  std::vector<ReplySample> samples;
};

// Sizes of the adapter's updates, by "BLOCK.TARGET", or "TARGET" for a layer outside of blocks.
struct NormsAtStep {
  std::int64_t step = 0;
  std::vector<std::pair<std::string, double>> norms;
};

enum class RunEnd { cut, stopped, done };  // cut: the log has no end (yet)

class RunRecord {
 public:
  // Takes an event into account. A value of an unexpected kind is ignored.
  // REQUIRES: the event is an object with a text "event".
  void add(const nlohmann::ordered_json& event);

  const std::vector<Series>& series() const noexcept { return series_; }
  // The points of a series; empty if there is none.
  const SeriesPoints& points(std::string_view event, std::string_view group,
                             std::string_view name = {}) const;
  const std::vector<SamplesAtStep>& samples() const noexcept { return samples_; }
  const std::vector<NormsAtStep>& norms() const noexcept { return norms_; }
  const std::vector<std::int64_t>& saved() const noexcept { return saved_; }      // checkpoints
  const std::vector<std::int64_t>& resumed() const noexcept { return resumed_; }  // after steps
  // The last "start" event; null if there is none.
  const nlohmann::ordered_json& start() const noexcept { return start_; }
  RunEnd end() const noexcept { return end_; }
  std::int64_t last_step() const noexcept { return last_step_; }
  std::int64_t planned_steps() const noexcept { return planned_steps_; }  // 0: not known
  // Of all processes of the run, up to its last step; nullopt if a part of it is not known.
  std::optional<double> seconds() const;

 private:
  void add_number(const std::string& event, const std::string& group, const std::string& name,
                  SeriesPoint point);
  void add_numbers(const nlohmann::ordered_json& event, std::int64_t step);
  void add_start(const nlohmann::ordered_json& event);
  void add_samples(const nlohmann::ordered_json& event, std::int64_t step);
  void add_norms(const nlohmann::ordered_json& event, std::int64_t step);

  std::vector<Series> series_;
  std::vector<SamplesAtStep> samples_;
  std::vector<NormsAtStep> norms_;
  std::vector<std::int64_t> saved_, resumed_;
  nlohmann::ordered_json start_;
  RunEnd end_ = RunEnd::cut;
  std::int64_t last_step_ = 0;
  std::int64_t planned_steps_ = 0;
  double earlier_seconds_ = 0;          // of the processes before the last one
  std::optional<double> seconds_ = {};  // of the last one
  bool seconds_known_ = true;           // of all before the last one
};

// The event of a line of a log; nullopt for a line that is none.
std::optional<nlohmann::ordered_json> run_event(const std::string& line);

// A run in a folder: its name, events and settings.
struct LoggedRun {
  std::string name;
  RunRecord record;
  std::vector<std::pair<std::string, std::string>> settings;  // of run.toml, in order
  std::int64_t lines_left_out = 0;  // lines of the log that are not events; a cut last line is none
};

// The settings of run.toml as text. Errors: UsageError for text that is not valid.
std::vector<std::pair<std::string, std::string>> settings_of(std::string_view toml);

// Reads the log and the settings of a run. Errors: not_found if the folder has no log; UsageError
// for a run.toml that is not valid. A run without run.toml has no settings.
LoggedRun read_run(const std::filesystem::path& folder);

}  // namespace clora
