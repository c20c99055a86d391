// TrainingLog: what a run leaves beside its adapter: log.jsonl, an event a line, and loss.svg, the
// loss curve. A run that goes on from a checkpoint keeps the lines up to that step.
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
  TrainingLog(const std::filesystem::path& folder, std::string title, std::int64_t kept_steps);

  // Appends the event, at once, and takes what belongs in the picture from it.
  void add(const nlohmann::ordered_json& event);
  // Draws the picture of everything so far; nothing where no step was made.
  void write_picture() const;

 private:
  void keep_lines(std::int64_t last_step);
  void note_loss(const nlohmann::ordered_json& event);

  std::filesystem::path folder_;
  std::ofstream lines_;
  LossCurve curve_;
};

}  // namespace clora
