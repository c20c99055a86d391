// TrainingLog: what a run leaves beside its adapter: log.jsonl, an event a line, and loss.svg, the
// loss curve. A run that goes on from a checkpoint keeps the lines up to that step. Nothing of an
// earlier log is touched before the run has made something: its first event after "start".
//
// Throws Error(io) where the folder cannot be written to. Threads: one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/clora/loss_picture.hpp"

namespace clora {

class TrainingLog {
 public:
  // kept_steps: lines of an earlier log of the folder up to this step stay; 0: none.
  TrainingLog(std::filesystem::path folder, std::string title, std::int64_t kept_steps);

  // Appends the event and takes what belongs in the picture from it. "start" waits for the next.
  void add(const nlohmann::ordered_json& event);
  // Draws the picture of everything so far; nothing where no step was made.
  void write_picture() const;
  // Lines of the earlier log that were not events and so were left out.
  std::int64_t lines_left_out() const noexcept { return left_out_; }

 private:
  void begin();
  void keep_lines();
  void note_loss(const nlohmann::ordered_json& event);

  std::filesystem::path folder_;
  std::int64_t kept_steps_;
  std::int64_t left_out_ = 0;
  std::string waiting_;  // lines for the file, until begin()
  std::ofstream lines_;
  LossCurve curve_;
};

}  // namespace clora
