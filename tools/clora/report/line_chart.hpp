// Charts of series over steps as inline SVG for the pages of html_page.hpp, whose style sheet has
// their colours. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/clora/report/series.hpp"

namespace clora {

struct ChartLine {
  std::string label;    // in the legend: "training"
  std::size_t colour;   // 0 to kChartColours - 1
  bool is_sparse;       // a dot for each point, as for evaluations; else a line with its mean
  SeriesPoints points;  // not empty, finite
};
constexpr std::size_t kChartColours = 8;

struct LineChart {
  std::string title;  // "Loss"
  std::string unit;   // "nats per token", or ""
  bool is_bytes = false;
  std::vector<ChartLine> lines;
  std::vector<std::int64_t> marks = {};  // steps with a vertical mark, as where a run resumed
};

// The chart as a <figure>: title, legend with the last values, and the picture. It can have the
// keyboard focus; the script of the page then shows the values at a step. Empty without lines.
std::string line_chart(const LineChart& chart);

// A value of the chart as text: "1.5 GiB" if they are bytes, else short_number().
std::string chart_value(const LineChart& chart, double value);

}  // namespace clora
