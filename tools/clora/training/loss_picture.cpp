#include "tools/clora/training/loss_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/clora/training/loss_axes.hpp"
#include "tools/command_line/svg.hpp"

namespace clora {
namespace {

constexpr double kLegend = 480;        // its left edge
constexpr std::size_t kMeanFrom = 40;  // minimum number of points for a running mean

constexpr const char* kRules = R"(  .axis { stroke: #888 }
  .train { fill: none; stroke: #2a7de1; stroke-width: 2; stroke-linejoin: round }
  .faint { stroke-width: 1; stroke-opacity: .35 }
  .valid { fill: #e8710a }
  .link { fill: none; stroke: #e8710a; stroke-dasharray: 4 4 }
)";
constexpr const char* kDarkRules = ".train { stroke: #6aabf7 }";

SeriesPoints finite(const SeriesPoints& points) {
  SeriesPoints kept;
  std::ranges::copy_if(points, std::back_inserter(kept),
                       [](const SeriesPoint& point) { return std::isfinite(point.value); });
  return kept;
}

LossFrame frame_of(const LossCurve& curve) {
  LossFrame frame{.first = 0, .last = 1, .low = 0, .high = 0};
  for (const auto* points : {&curve.train, &curve.valid}) {
    for (const SeriesPoint& point : *points) {
      frame.last = std::max(frame.last, static_cast<double>(point.step));
      frame.high = std::max(frame.high, point.value);
    }
  }
  frame.high = frame.high > 0 ? frame.high * 1.05 : 1;
  return frame;
}

std::string polyline(const SeriesPoints& points, const LossFrame& frame, const char* style) {
  std::string places;
  for (const SeriesPoint& point : points) {
    places += fmt::format("{:.1f},{:.1f} ", frame.x(static_cast<double>(point.step)),
                          frame.y(point.value));
  }
  return svg_element("polyline", {{"class", style}, {"points", places}}) + "\n";
}

std::vector<AxisMark> step_marks(const LossFrame& frame) {
  std::vector<AxisMark> marks;
  for (const double step : axis_marks(frame.first, frame.last, 8)) {
    if (step == std::floor(step)) marks.push_back({step, fmt::format("{:g}", step)});
  }
  return marks;
}

std::string legend(std::string_view name, const SeriesPoint& last, double y) {
  return svg_text({{"x", kLegend + 32}, {"y", y}},
                  fmt::format("{}, {:.3g} at the end", name, last.value)) +
         "\n";
}

std::string train_part(const SeriesPoints& train, const LossFrame& frame) {
  if (train.empty()) return {};
  std::string text;
  if (train.size() < kMeanFrom) {
    text = polyline(train, frame, "train");
  } else {
    text = polyline(train, frame, "train faint") + polyline(running_mean(train), frame, "train");
  }
  const std::string sample = fmt::format("M{} 66h24", kLegend);
  return text + svg_element("path", {{"class", "train"}, {"d", sample}}) +
         legend("training", train.back(), 70);
}

template <class Coordinate>
std::string disc(const Coordinate& x, const Coordinate& y) {
  return svg_element("circle", {{"class", "valid"}, {"cx", x}, {"cy", y}, {"r", 4}});
}

std::string valid_part(const SeriesPoints& valid, const LossFrame& frame) {
  if (valid.empty()) return {};
  std::string text = polyline(valid, frame, "link");
  for (const SeriesPoint& point : valid) {
    const double x = frame.x(static_cast<double>(point.step)), y = frame.y(point.value);
    text += disc(svg_tenths(x), svg_tenths(y)) + "\n";
  }
  return text + disc(kLegend + 12, 88.0) + legend("held out", valid.back(), 92);
}

}  // namespace

std::string loss_picture(const LossCurve& given) {
  const LossCurve curve{given.title, finite(given.train), finite(given.valid)};
  const LossFrame frame = frame_of(curve);
  return svg_document(
      LossFrame::kWidth, LossFrame::kHeight, curve.title,
      svg_style(kRules, kDarkRules) +
          svg_text({{"class", "title"}, {"x", LossFrame::kLeft}, {"y", 34}}, curve.title) + "\n" +
          loss_axes(frame, step_marks(frame), "step") + train_part(curve.train, frame) +
          valid_part(curve.valid, frame));
}

}  // namespace clora
