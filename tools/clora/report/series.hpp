// Series of numbers over the steps of a run, and what charts of them need. Pure functions;
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace clora {

struct SeriesPoint {
  std::int64_t step = 0;
  double value = 0;

  bool operator==(const SeriesPoint&) const = default;
};
using SeriesPoints = std::vector<SeriesPoint>;

// A line of a chart. Series of one group share a chart: the field "loss" of training steps and that
// of evaluations, or the fields "rewards/chosen" and "rewards/rejected".
struct Series {
  std::string group;    // "loss", "rewards"
  std::string name;     // "" if the group has one field, else the field: "chosen"
  std::string event;    // the events that it is from: "step", "eval"
  SeriesPoints points;  // in the order of steps; finite

  bool is_of_steps() const { return event == "step"; }
};

// At most about `wanted` round numbers, evenly spaced in [low, high].
std::vector<double> axis_marks(double low, double high, int wanted);

// The running mean over a twenty-fifth of the points, centred on each point to avoid a lag.
SeriesPoints running_mean(const SeriesPoints& points);

// At most `most` of the points: the lowest and the highest of each of most / 2 ranges, so that a
// spike stays visible. The first and the last point stay. REQUIRES: most >= 4.
SeriesPoints thinned(const SeriesPoints& points, std::size_t most);

// The mean of the last tenth of the points: the level at the end of a noisy series. NaN of nothing.
double level_at_end(const SeriesPoints& points);

// The median of the values; NaN of nothing.
double median_of(const SeriesPoints& points);

// The point with the lowest value; nullptr of nothing.
const SeriesPoint* lowest(const SeriesPoints& points);

// "0.0123", "1.85e-05", "12,345": four significant digits.
std::string short_number(double value);

}  // namespace clora
