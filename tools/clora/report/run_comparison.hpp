// Training runs side by side: their results, and the settings that differ. Pure functions;
// thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/clora/report/run_record.hpp"

namespace clora {

struct RunResults {
  std::string state;  // "done", "stopped", "cut"
  std::int64_t steps = 0, planned_steps = 0;
  std::optional<double> loss;  // mean of the last tenth of the steps
  std::optional<double> held_out;
  std::optional<SeriesPoint> best;     // the lowest held-out loss
  std::optional<double> seconds;       // nullopt: a part of the run was logged without times
  std::optional<double> tokens_per_s;  // median of the steps
  std::optional<double> peak_bytes;
};
RunResults results_of(const RunRecord& record);

// A setting that is not the same in all runs; nullopt where a run has none of that name.
struct DifferingSetting {
  std::string name;
  std::vector<std::optional<std::string>> values;  // of each run
};
// In the order of the first run that has it. Settings are those of run.toml without the folder and
// the options of the report, and the device and numbers of records that the log has.
std::vector<DifferingSetting> differing_settings(const std::vector<LoggedRun>& runs);

// A row of names and values; every row has as many cells as the head.
struct TextTable {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
};
TextTable results_table(const std::vector<LoggedRun>& runs);
TextTable settings_table(const std::vector<LoggedRun>& runs);
// The lines of a table: the first column to the left, the others to the right. Cells of more than
// 40 characters are cut.
std::vector<std::string> lines_of(const TextTable& table);

// {"run", "state", "steps", ..., "settings": {NAME: VALUE}} for each run, with the settings that
// differ.
std::vector<nlohmann::ordered_json> json_of(const std::vector<LoggedRun>& runs);

// The runs as one self-contained HTML page: a colour for each, their curves on the same axes.
std::string compare_page(const std::vector<LoggedRun>& runs);

}  // namespace clora
