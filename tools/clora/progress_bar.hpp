// ProgressBar: the progress of a long task. On a terminal it redraws one line (on stderr if stdout
// is not a terminal). Without a terminal it prints a line for each twentieth of the work, and at
// least one every ten seconds. Silent with --quiet.
//
//    120/300 [=========>               ]  loss 0.4213  912 tokens/s  0:42 left
//
// Clears its line when destroyed. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/command_line/output.hpp"

namespace clora {

class ProgressBar {
 public:
  // unit: the noun of a plain line, "step" or "record". done: the starting point of a resumed task.
  ProgressBar(Output& output, std::string_view unit, std::int64_t total, std::int64_t done = 0);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `figures`: "loss 0.4213  912 tokens/s"
  void update(std::int64_t done, std::string_view figures);
  // Removes the bar from the screen before other output; the next update() draws it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  double seconds_left(std::int64_t done) const;
  void draw(std::int64_t done, std::string_view figures, std::string_view left);
  bool line_is_due(std::int64_t done) const;

  Output& output_;
  std::string unit_;
  std::int64_t total_;
  std::int64_t begin_;
  std::int64_t last_line_;  // progress at the last plain line
  std::FILE* terminal_;     // nullptr: no terminal
  bool drawn_ = false;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_drawn_{};
};

}  // namespace clora
