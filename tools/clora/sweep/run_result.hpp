// What became of a run of a sweep, read from the log of its folder (training_log.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace clora {

struct RunResult {
  bool finished = false;                  // the run ended by itself, perhaps by early stopping
  bool stopped = false;                   // it was interrupted, and has saved
  std::int64_t steps = 0;                 // the last one in the log
  double seconds = 0;                     // of the last call
  std::optional<double> valid_loss = {};  // of the adapter in the folder
  std::optional<double> train_loss = {};  // the mean over the last tenth of the steps
  // exact_match, accuracy and the scores of a command, of the last evaluation.
  std::vector<std::pair<std::string, double>> scores = {};
};

// The result of a folder without a log is that of a run without steps. Lines that are not events
// are ignored. Errors: io.
RunResult read_run_result(const std::filesystem::path& folder);

// Lower is better: by the held-out loss; runs without one come after the others, by the training
// loss, and those without any loss last.
bool is_better(const RunResult& a, const RunResult& b);

nlohmann::ordered_json json_of(const RunResult& result);

}  // namespace clora
