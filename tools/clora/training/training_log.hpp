// TrainingLog: the log files of a run next to its adapter: log.jsonl with one event per line, and
// loss.svg with the loss curve. A resumed run keeps the lines up to its checkpoint. An earlier log
// is not touched until the run has made progress: its first event after "start".
//
// Throws Error(io) if the folder is not writable. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/clora/report/run_record.hpp"

namespace clora {

// Whether an event describes the run before its first step: "start", "devices".
bool comes_before_progress(const nlohmann::ordered_json& event);

class TrainingLog {
 public:
  // retained_steps: lines of an earlier log in the folder up to this step are kept; 0: none.
  TrainingLog(std::filesystem::path folder, std::string title, std::int64_t retained_steps);

  // Appends the event. Events before progress are buffered until the next one.
  void add(const nlohmann::ordered_json& event);
  // Writes the chart of all events so far; no-op before the first step.
  void write_picture() const;
  // All events so far, also those of the earlier log that are kept.
  const RunRecord& record() const noexcept { return record_; }
  // The number of lines of the earlier log that were not events and were dropped.
  std::int64_t lines_left_out() const noexcept { return left_out_; }

 private:
  void begin();
  void keep_lines();

  std::filesystem::path folder_;
  std::int64_t retained_steps_;
  std::int64_t left_out_ = 0;
  std::string title_;
  std::vector<nlohmann::ordered_json> waiting_;  // events to write after begin()
  std::ofstream lines_;
  RunRecord record_;
};

}  // namespace clora
