// ProgressBar: how far a long work is. On a terminal one line that is drawn over (on stderr where
// stdout is none); without a terminal plain lines, one for each twentieth of the work, and for each
// ten seconds where that takes longer. Silent with --quiet.
//
//    120/300 [=========>               ]  loss 0.4213  912 tokens/s  0:42 left
//
// Clears its line when destroyed. Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "tools/command_line/output.hpp"

namespace clora {

class ProgressBar {
 public:
  // unit: "step", "record": the word of a plain line. done: where a resumed work begins.
  ProgressBar(Output& output, std::string_view unit, std::int64_t total, std::int64_t done = 0);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `figures`: "loss 0.4213  912 tokens/s"
  void update(std::int64_t done, std::string_view figures);
  // Takes the bar off the screen, so that a line can be written; the next update draws it again.
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
  std::int64_t last_line_;  // what the last plain line told
  std::FILE* terminal_;     // nullptr: there is none
  bool drawn_ = false;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_drawn_{};
};

}  // namespace clora
