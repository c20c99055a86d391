#include "tools/clora/report/line_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/command_line/markup.hpp"
#include "tools/command_line/output.hpp"
#include "tools/command_line/svg.hpp"

namespace clora {
namespace {

constexpr double kWidth = 400, kHeight = 210;
constexpr double kLeft = 50, kRight = 10, kTop = 8, kBottom = 24;
constexpr double kFloor = kHeight - kBottom;
constexpr std::size_t kMostPoints = 400;  // of a line
constexpr std::size_t kMeanFrom = 40;     // minimum number of points for a running mean

struct Frame {  // maps values to the chart
  double first, last, low, high;

  double x(std::int64_t step) const {
    return kLeft + (static_cast<double>(step) - first) / (last - first) * (kWidth - kLeft - kRight);
  }
  double y(double value) const { return kFloor - (value - low) / (high - low) * (kFloor - kTop); }
};

// The axis of values begins at 0 if the lowest value is near it, and that of bytes always.
void pad(Frame& frame, bool is_bytes) {
  constexpr double kNearZero = 0.25, kMargin = 0.06;
  if (frame.low >= 0 && (is_bytes || frame.low <= kNearZero * frame.high)) {
    frame.high = frame.high > 0 ? frame.high * (1 + kMargin) : 1;
    frame.low = 0;
    return;
  }
  const double range = frame.high - frame.low;
  const double margin = range > 0 ? range * kMargin : std::abs(frame.high) * 0.1;
  frame.low -= margin;
  frame.high += margin;
}

Frame frame_of(const LineChart& chart) {
  Frame frame{0, 1, INFINITY, -INFINITY};
  for (const ChartLine& line : chart.lines) {
    for (const SeriesPoint& point : line.points) {
      frame.last = std::max(frame.last, static_cast<double>(point.step));
      frame.low = std::min(frame.low, point.value);
      frame.high = std::max(frame.high, point.value);
    }
  }
  pad(frame, chart.is_bytes);
  return frame;
}

// The unit of a chart's axis: of bytes, the largest of which the highest value has one.
struct AxisUnit {
  double size = 1;
  std::string_view name = "";
};
AxisUnit unit_of(const LineChart& chart, const Frame& frame) {
  constexpr std::array<std::string_view, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  if (!chart.is_bytes) return {};
  AxisUnit unit{1, kNames[0]};
  for (std::size_t i = 1; i < kNames.size() && frame.high >= unit.size * 1024; ++i) {
    unit = {unit.size * 1024, kNames[i]};
  }
  return unit;
}

std::string value_axis(const LineChart& chart, const Frame& frame) {
  const AxisUnit unit = unit_of(chart, frame);
  std::string text;
  for (const double mark : axis_marks(frame.low / unit.size, frame.high / unit.size, 4)) {
    const double y = frame.y(mark * unit.size);
    text += svg_horizontal_line("grid", kLeft, kWidth - kRight, y) +
            svg_text({{"x", kLeft - 6}, {"y", svg_tenths(y + 4)}, {"text-anchor", "end"}},
                     short_number(mark)) +
            "\n";
  }
  return text;
}

std::string axes(const LineChart& chart, const Frame& frame) {
  std::string text = value_axis(chart, frame);
  for (const double step : axis_marks(frame.first, frame.last, 5)) {
    if (step != std::floor(step)) continue;
    const double x = frame.x(static_cast<std::int64_t>(step));
    const bool at_end = x > kWidth - kRight - 12;  // a longer text would be cut at the edge
    text += svg_text({{"x", svg_tenths(at_end ? kWidth - kRight : x)},
                      {"y", kHeight - 6},
                      {"text-anchor", at_end ? "end" : "middle"}},
                     grouped(static_cast<long long>(step))) +
            "\n";
  }
  for (const std::int64_t step : chart.marks) {
    text += svg_vertical_line("mark", frame.x(step), kTop, kFloor) + "\n";
  }
  return text + svg_horizontal_line("axis", kLeft, kWidth - kRight, kFloor) + "\n";
}

std::string polyline(const SeriesPoints& points, const Frame& frame, const std::string& style) {
  std::string places;
  for (const SeriesPoint& point : points) {
    places += fmt::format("{:.1f},{:.1f} ", frame.x(point.step), frame.y(point.value));
  }
  return svg_element("polyline", {{"class", style}, {"points", places}}) + "\n";
}

std::string dots(const SeriesPoints& points, const Frame& frame, const std::string& style) {
  std::string text;
  for (const SeriesPoint& point : points) {
    text += svg_element("circle", {{"class", style},
                                   {"cx", svg_tenths(frame.x(point.step))},
                                   {"cy", svg_tenths(frame.y(point.value))},
                                   {"r", 3}});
  }
  return text + "\n";
}

std::string line_of(const ChartLine& line, const Frame& frame) {
  const std::string colour = fmt::format("s{}", line.colour);
  const SeriesPoints points = thinned(line.points, kMostPoints);
  if (line.is_sparse) {
    const std::string link = polyline(points, frame, "link " + colour);
    return points.size() > 60 ? link : link + dots(points, frame, "dot " + colour);
  }
  if (points.size() == 1) return dots(points, frame, "dot " + colour);
  if (line.points.size() < kMeanFrom) return polyline(points, frame, "line " + colour);
  return polyline(points, frame, "faint " + colour) +
         polyline(thinned(running_mean(line.points), kMostPoints), frame, "line " + colour);
}

std::string legend(const LineChart& chart, const Frame& frame) {
  std::string text = "<figcaption><strong>" + html_escaped(chart.title) + "</strong>";
  const std::string_view unit = chart.is_bytes ? unit_of(chart, frame).name : chart.unit;
  if (!unit.empty()) text += fmt::format(" <small>{}</small>", html_escaped(unit));
  text += "<span class=\"legend\">";
  for (const ChartLine& line : chart.lines) {
    text += fmt::format("<span><i class=\"s{}{}\"></i>{} <b>{}</b></span>", line.colour,
                        line.is_sparse ? " round" : "", html_escaped(line.label),
                        chart_value(chart, line.points.back().value));
  }
  return text + "</span></figcaption>\n";
}

// The points for the script, as attributes of the figure: "label|step:value,step:value;..."
std::string data_of(const LineChart& chart, const Frame& frame) {
  std::string text;
  for (const ChartLine& line : chart.lines) {
    if (!text.empty()) text += ';';
    text += fmt::format("{}|", line.colour);
    const char* separator = "";
    for (const SeriesPoint& point : thinned(line.points, kMostPoints)) {
      text += fmt::format("{}{}:{:.5g}", separator, point.step, point.value);
      separator = ",";
    }
  }
  return fmt::format("data-last=\"{:g}\" data-bytes=\"{}\" data-lines=\"{}\"", frame.last,
                     chart.is_bytes ? 1 : 0, text);
}

}  // namespace

std::string chart_value(const LineChart& chart, double value) {
  if (!chart.is_bytes) return short_number(value);
  return value < 0 ? short_number(value) : readable_bytes(value);
}

std::string line_chart(const LineChart& chart) {
  if (chart.lines.empty()) return {};
  const Frame frame = frame_of(chart);
  std::string content = axes(chart, frame);
  for (const ChartLine& line : chart.lines) content += line_of(line, frame);
  return fmt::format(
      "<figure class=\"chart\" tabindex=\"0\" {}>\n{}{}<p class=\"readout\" aria-live=\"polite\">"
      "</p></figure>\n",
      data_of(chart, frame), legend(chart, frame),
      svg_inline(kWidth, kHeight, chart.title + " over steps", content));
}

}  // namespace clora
