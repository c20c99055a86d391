#include "tools/clc/bench/roofline_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/fail.hpp"
#include "tools/command_line/svg.hpp"

namespace clora {
namespace {

constexpr double kWidth = 720, kPlotHeight = 340;
constexpr double kLeft = 84, kRight = 24, kBottom = 52;
constexpr double kHead = 66, kLegendRow = 20;  // title and device, then a row per point
constexpr int kLegendSpace = 14;               // next to the legend and above the plot

constexpr const char* kRules = R"(  .axis { stroke: #888; fill: none }
  .roof { stroke: #555; stroke-width: 2; fill: none; stroke-linejoin: round }
  .link { stroke: #888; stroke-dasharray: 3 4 }
  .new { stroke: #2a7de1; stroke-width: 2; fill: #2a7de1 }
  .old { stroke: #e8710a; stroke-width: 2; fill: #e8710a }
  .cold { fill: none }
)";
constexpr const char* kDarkRules = ".roof { stroke: #bbb }";

struct Place {
  double x, y;
};

// Maps the decades of both axes to the chart.
struct Frame {
  double left, right, low, high;  // exponents of 10
  double top, floor;

  double x(double flops_per_byte) const {
    return kLeft + (std::log10(flops_per_byte) - left) / (right - left) * (kWidth - kLeft - kRight);
  }
  double y(double flops_per_second) const {
    return floor - (std::log10(flops_per_second) - low) / (high - low) * (floor - top);
  }
  Place place(double flops_per_byte, double flops_per_second) const {
    return {x(flops_per_byte), y(flops_per_second)};
  }
};

bool is_drawn(const RooflinePoint& point) {
  return std::isfinite(point.flops_per_byte) && point.flops_per_byte > 0 &&
         std::isfinite(point.flops_per_second) && point.flops_per_second > 0;
}

// At least half a decade beyond everything drawn, rounded to full decades.
Frame frame_of(const Roofline& roofline) {
  const RooflinePeaks& peaks = roofline.peaks;
  const double bandwidth = peaks.bytes_per_second();
  const double highest = peaks.flops_per_second();
  double left = peaks.f32_flops_per_second / bandwidth, right = highest / bandwidth;
  double low = peaks.f32_flops_per_second, high = highest;
  for (const RooflinePoint& point : roofline.points) {
    left = std::min(left, point.flops_per_byte);
    right = std::max(right, point.flops_per_byte);
    low = std::min(low, point.flops_per_second);
    high = std::max(high, point.flops_per_second);
  }
  left = std::floor(std::log10(left) - 0.5);
  // The memory roof begins within the chart.
  low = std::min(std::log10(low) - 0.5, std::log10(bandwidth) + left);
  const double top =
      kHead + kLegendRow * static_cast<double>(roofline.points.size()) + kLegendSpace;
  return {left,
          std::ceil(std::log10(right) + 0.5),
          std::floor(low),
          std::ceil(std::log10(high) + 0.2),
          top,
          top + kPlotHeight};
}

// Formats 1e11 as "100 G".
std::string scaled(double value, std::string_view unit) {
  constexpr std::array<const char*, 6> kPrefixes{"", "k", "M", "G", "T", "P"};
  std::size_t step = 0;
  while (value >= 999.5 && step + 1 < kPrefixes.size()) {
    value /= 1000;
    ++step;
  }
  return fmt::format("{:.3g} {}{}", value, kPrefixes.at(step), unit);
}

std::string vertical_axis(const Frame& frame) {
  std::string text;
  for (int decade = static_cast<int>(std::lround(frame.low)); decade <= frame.high; ++decade) {
    const double value = std::pow(10.0, decade), y = frame.y(value);
    text += svg_horizontal_line("grid", kLeft, kWidth - kRight, y) +
            svg_text({{"x", kLeft - 8}, {"y", svg_tenths(y + 4)}, {"text-anchor", "end"}},
                     scaled(value, "")) +
            "\n";
  }
  const std::string turned =
      fmt::format("translate(18 {}) rotate(-90)", (frame.top + frame.floor) / 2);
  return text + svg_text({{"transform", turned}, {"text-anchor", "middle"}}, "flops per second") +
         "\n";
}

std::string horizontal_axis(const Frame& frame) {
  std::string text;
  for (int decade = static_cast<int>(std::lround(frame.left)); decade <= frame.right; ++decade) {
    const double value = std::pow(10.0, decade), x = frame.x(value);
    text += svg_vertical_line("grid", x, frame.top, frame.floor) +
            svg_text({{"x", svg_tenths(x)}, {"y", frame.floor + 20}, {"text-anchor", "middle"}},
                     fmt::format("{:g}", value)) +
            "\n";
  }
  const std::string lines =
      fmt::format("M{} {}V{}H{}", kLeft, frame.top, frame.floor, kWidth - kRight);
  return text + svg_element("path", {{"class", "axis"}, {"d", lines}}) + "\n" +
         svg_text({{"x", (kLeft + kWidth - kRight) / 2},
                   {"y", frame.floor + 42},
                   {"text-anchor", "middle"}},
                  "flops per byte of memory") +
         "\n";
}

std::string roof(const std::string& path) {
  return svg_element("path", {{"class", "roof"}, {"d", path}}) + "\n";
}

// Placed along the slope, above its lower end.
std::string memory_roof(const Frame& frame, const RooflinePeaks& peaks) {
  const double bandwidth = peaks.bytes_per_second(), peak = peaks.flops_per_second();
  const double least = std::pow(10.0, frame.left);
  const Place begin = frame.place(least, bandwidth * least);
  const Place end = frame.place(peak / bandwidth, peak);
  const double angle = std::atan2(end.y - begin.y, end.x - begin.x) * 180 / std::acos(-1.0);
  const std::string along =
      fmt::format("translate({:.1f} {:.1f}) rotate({:.1f})", begin.x, begin.y, angle);
  return roof(fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", begin.x, begin.y, end.x, end.y)) +
         svg_text({{"transform", along}, {"x", 12}, {"y", -7}},
                  "memory " + scaled(bandwidth, "B/s")) +
         "\n";
}

// Runs from the slope to the right, with its name on the side away from the other roof.
std::string arithmetic_roof(const Frame& frame, const RooflinePeaks& peaks, double peak,
                            std::string_view name, bool name_below) {
  const Place begin = frame.place(peak / peaks.bytes_per_second(), peak);
  return roof(fmt::format("M{:.1f} {:.1f}H{}", begin.x, begin.y, kWidth - kRight)) +
         svg_text({{"x", kWidth - kRight - 6},
                   {"y", svg_tenths(begin.y + (name_below ? 17 : -7))},
                   {"text-anchor", "end"}},
                  fmt::format("{} {}", name, scaled(peak, "FLOP/s"))) +
         "\n";
}

std::string roofs(const Frame& frame, const RooflinePeaks& peaks) {
  const double f32 = peaks.f32_flops_per_second, matrix = peaks.matrix_flops_per_second;
  std::string text =
      memory_roof(frame, peaks) + arithmetic_roof(frame, peaks, f32, "f32", matrix > f32);
  if (matrix > 0) {
    text += arithmetic_roof(frame, peaks, matrix, "matrix unit", matrix <= f32);
  }
  return text;
}

std::string mark(const RooflinePoint& point, Place at) {
  const std::string style =
      fmt::format("{}{}", point.old ? "old" : "new", point.cold ? " cold" : "");
  return svg_element(
      "circle", {{"class", style}, {"cx", svg_tenths(at.x)}, {"cy", svg_tenths(at.y)}, {"r", 5}});
}

// From the point down to the axis.
std::string link(Place at, double floor) {
  const std::string x = svg_tenths(at.x);
  return svg_element("line", {{"class", "link"},
                              {"x1", x},
                              {"x2", x},
                              {"y1", svg_tenths(at.y)},
                              {"y2", svg_tenths(floor)}});
}

std::string points(const Frame& frame, const std::vector<RooflinePoint>& drawn) {
  std::string text;
  double row = kHead + kLegendRow / 2;
  for (const RooflinePoint& point : drawn) {
    const Place at = frame.place(point.flops_per_byte, point.flops_per_second);
    text += link(at, frame.floor) + mark(point, at) + mark(point, {kLeft + 6, row}) +
            svg_text({{"x", kLeft + 20}, {"y", row + 4}}, point.name) + "\n";
    row += kLegendRow;
  }
  return text;
}

}  // namespace

std::string roofline_picture(const Roofline& given) {
  require(given.peaks.known(), "roofline picture: needs the peaks of '{}'", given.device);
  Roofline roofline = given;
  std::erase_if(roofline.points, [](const RooflinePoint& point) { return !is_drawn(point); });
  const Frame frame = frame_of(roofline);
  const std::string device = "on " + given.device;
  return svg_document(kWidth, frame.floor + kBottom, given.title + " " + device,
                      svg_style(kRules, kDarkRules) +
                          svg_text({{"class", "title"}, {"x", kLeft}, {"y", 30}}, given.title) +
                          "\n" + svg_text({{"x", kLeft}, {"y", 50}}, device) + "\n" +
                          vertical_axis(frame) + horizontal_axis(frame) +
                          roofs(frame, roofline.peaks) + points(frame, roofline.points));
}

}  // namespace clora
