// TrainingProgress: how far a training is, on the screen: the view of training_view.hpp, redrawn in
// place, on a terminal; else the plain lines of ProgressBar. Silent with --quiet. Not thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "tools/clora/progress_bar.hpp"
#include "tools/clora/report/training_view.hpp"

namespace clora {

class TrainingProgress {
 public:
  // done: the step that the run resumes after.
  TrainingProgress(Output& output, std::int64_t total, std::int64_t done);

  // Shows the last step of the record. `figures`: those of a plain line.
  void update(const RunRecord& record, std::string_view figures);
  // Removes the view before other output; the next update() draws it again.
  void clear();
  // Leaves the view as it is, after a message that another writer has put below it.
  void leave();
  // Shows the end of the run and leaves it on the screen.
  void finish(const RunRecord& record);

  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  void draw(const RunRecord& record);

  bool quiet_;
  std::int64_t total_, begin_;
  ProgressBar lines_;                  // used without a terminal
  std::optional<TerminalBlock> view_;  // on a terminal
  Clock::time_point started_ = Clock::now();
  Clock::time_point drawn_{};
};

}  // namespace clora
