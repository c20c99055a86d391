// The state of a training run as lines for a terminal.
//
//  step 120 of 300 ━━━━━━━━━━━━━━━━━────────────────────────── 40 %  1:02  1:33 left
//  loss 1.2345     ██▇▆▅▅▄▄▃▃▃▂▂▂▁▁▁▁▁  from 2.8103
//  held out 1.3011 at step 100, lowest 1.2900 at step 80
//  rate 0.0018  gradient norm 0.62  912 tokens/s  1.2 GiB
//
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/clora/report/run_record.hpp"
#include "tools/command_line/terminal_block.hpp"

namespace clora {

struct TrainingView {
  std::int64_t total_steps = 1;
  double seconds = 0;       // since the start
  double seconds_left = 0;  // estimated
  TerminalSize size = {};
  bool colour = false;
};

// Four lines, or three before the first evaluation; fewer if the terminal has not the rows. What
// does not fit in its columns is omitted. Further numbers of steps follow those of the last line.
std::vector<TerminalLine> training_view(const RunRecord& record, const TrainingView& view);

// The values as block characters between the lowest and the highest of them: a character for the
// mean of each of `width` ranges of the points, or for each point if they are fewer.
std::string block_curve(const SeriesPoints& points, std::size_t width);

}  // namespace clora
