#include "tools/clc/roofline_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/fail.hpp"
#include "tools/command_line/markup.hpp"

namespace clora {
namespace {

constexpr double kWidth = 720, kPlotHeight = 340;
constexpr double kLeft = 84, kRight = 24, kBottom = 52;
constexpr double kHead = 66, kLegendRow = 20;  // title and device, then a row per point
constexpr int kLegendSpace = 14;               // next to the legend and above the plot

// Colours with enough contrast on white and on near-black; the text colour follows the page.
constexpr const char* kStyle = R"(<style>
  text { font: 13px system-ui, sans-serif; fill: #333 }
  .title { font-weight: 600; font-size: 15px }
  .grid { stroke: #888; stroke-opacity: .25 }
  .axis { stroke: #888; fill: none }
  .roof { stroke: #555; stroke-width: 2; fill: none; stroke-linejoin: round }
  .link { stroke: #888; stroke-dasharray: 3 4 }
  .new { stroke: #2a7de1; stroke-width: 2; fill: #2a7de1 }
  .old { stroke: #e8710a; stroke-width: 2; fill: #e8710a }
  .cold { fill: none }
  @media (prefers-color-scheme: dark) { text { fill: #ddd } .roof { stroke: #bbb } }
</style>
)";

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
  for (double decade = frame.low; decade <= frame.high; ++decade) {
    const double value = std::pow(10.0, decade), y = frame.y(value);
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kWidth - kRight, y, kLeft - 8, y + 4, scaled(value, ""));
  }
  return text + fmt::format(
                    "<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">flops "
                    "per second</text>\n",
                    (frame.top + frame.floor) / 2);
}

std::string horizontal_axis(const Frame& frame) {
  std::string text;
  for (double decade = frame.left; decade <= frame.right; ++decade) {
    const double value = std::pow(10.0, decade);
    text += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
        frame.x(value), frame.top, frame.floor, frame.floor + 20, value);
  }
  return text + fmt::format(
                    "<path class=\"axis\" d=\"M{0} {1}V{2}H{3}\"/>\n<text x=\"{4}\" y=\"{5}\" "
                    "text-anchor=\"middle\">flops per byte of memory</text>\n",
                    kLeft, frame.top, frame.floor, kWidth - kRight, (kLeft + kWidth - kRight) / 2,
                    frame.floor + 42);
}

// Placed along the slope, above its lower end.
std::string memory_roof(const Frame& frame, const RooflinePeaks& peaks) {
  const double bandwidth = peaks.bytes_per_second(), peak = peaks.flops_per_second();
  const double least = std::pow(10.0, frame.left);
  const Place begin = frame.place(least, bandwidth * least);
  const Place end = frame.place(peak / bandwidth, peak);
  const double angle = std::atan2(end.y - begin.y, end.x - begin.x) * 180 / std::acos(-1.0);
  return fmt::format(
      "<path class=\"roof\" d=\"M{0:.1f} {1:.1f}L{2:.1f} {3:.1f}\"/>\n"
      "<text transform=\"translate({0:.1f} {1:.1f}) rotate({4:.1f})\" x=\"12\" y=\"-7\">"
      "memory {5}</text>\n",
      begin.x, begin.y, end.x, end.y, angle, scaled(bandwidth, "B/s"));
}

// Runs from the slope to the right, with its name on the side away from the other roof.
std::string arithmetic_roof(const Frame& frame, const RooflinePeaks& peaks, double peak,
                            std::string_view name, bool name_below) {
  const Place begin = frame.place(peak / peaks.bytes_per_second(), peak);
  return fmt::format(
      "<path class=\"roof\" d=\"M{0:.1f} {1:.1f}H{2}\"/>\n"
      "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5} {6}</text>\n",
      begin.x, begin.y, kWidth - kRight, kWidth - kRight - 6, begin.y + (name_below ? 17 : -7),
      name, scaled(peak, "FLOP/s"));
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
  return fmt::format("<circle class=\"{}{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"/>",
                     point.old ? "old" : "new", point.cold ? " cold" : "", at.x, at.y);
}

std::string points(const Frame& frame, const std::vector<RooflinePoint>& drawn) {
  std::string text;
  double row = kHead + kLegendRow / 2;
  for (const RooflinePoint& point : drawn) {
    const Place at = frame.place(point.flops_per_byte, point.flops_per_second);
    text += fmt::format(
        "<line class=\"link\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>", at.x,
        at.y, frame.floor);
    text += mark(point, at) + mark(point, {kLeft + 6, row});
    text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kLeft + 20, row + 4,
                        html_escaped(point.name));
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
  const std::string title = html_escaped(given.title), device = html_escaped(given.device);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\" role=\"img\">\n<title>{2} on {3}</title>\n",
             kWidth, frame.floor + kBottom, title, device) +
         kStyle +
         fmt::format(
             "<text class=\"title\" x=\"{0}\" y=\"30\">{1}</text>\n"
             "<text x=\"{0}\" y=\"50\">on {2}</text>\n",
             kLeft, title, device) +
         vertical_axis(frame) + horizontal_axis(frame) + roofs(frame, roofline.peaks) +
         points(frame, roofline.points) + "</svg>\n";
}

}  // namespace clora
