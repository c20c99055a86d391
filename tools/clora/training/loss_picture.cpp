#include "tools/clora/training/loss_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/command_line/svg.hpp"

namespace clora {
namespace {

constexpr double kWidth = 720, kHeight = 400;
constexpr double kLeft = 64, kRight = 24, kTop = 48, kBottom = 52;
constexpr double kFloor = kHeight - kBottom;
constexpr double kLegend = 480;        // its left edge
constexpr std::size_t kMeanFrom = 40;  // minimum number of points for a running mean

constexpr const char* kRules = R"(  .axis { stroke: #888 }
  .train { fill: none; stroke: #2a7de1; stroke-width: 2; stroke-linejoin: round }
  .faint { stroke-width: 1; stroke-opacity: .35 }
  .valid { fill: #e8710a }
  .link { fill: none; stroke: #e8710a; stroke-dasharray: 4 4 }
)";
constexpr const char* kDarkRules = ".train { stroke: #6aabf7 }";

struct Frame {  // maps values to the chart
  double first_step, last_step, low, high;

  double x(double step) const {
    return kLeft + (step - first_step) / (last_step - first_step) * (kWidth - kLeft - kRight);
  }
  double y(double loss) const {
    return kFloor - (loss - low) / (high - low) * (kHeight - kTop - kBottom);
  }
};

SeriesPoints finite(const SeriesPoints& points) {
  SeriesPoints kept;
  std::ranges::copy_if(points, std::back_inserter(kept),
                       [](const SeriesPoint& point) { return std::isfinite(point.value); });
  return kept;
}

Frame frame_of(const LossCurve& curve) {
  Frame frame{0, 1, 0, 0};
  for (const auto* points : {&curve.train, &curve.valid}) {
    for (const SeriesPoint& point : *points) {
      frame.last_step = std::max(frame.last_step, static_cast<double>(point.step));
      frame.high = std::max(frame.high, point.value);
    }
  }
  frame.high = frame.high > 0 ? frame.high * 1.05 : 1;
  return frame;
}

std::string polyline(const SeriesPoints& points, const Frame& frame, const char* style) {
  std::string places;
  for (const SeriesPoint& point : points) {
    places += fmt::format("{:.1f},{:.1f} ", frame.x(static_cast<double>(point.step)),
                          frame.y(point.value));
  }
  return svg_element("polyline", {{"class", style}, {"points", places}}) + "\n";
}

std::string loss_marks(const Frame& frame) {
  std::string text;
  for (const double loss : axis_marks(frame.low, frame.high, 6)) {
    const double y = frame.y(loss);
    text += svg_horizontal_line("grid", kLeft, kWidth - kRight, y) +
            svg_text({{"x", kLeft - 8}, {"y", svg_tenths(y + 4)}, {"text-anchor", "end"}},
                     fmt::format("{:g}", loss)) +
            "\n";
  }
  return text;
}

std::string step_marks(const Frame& frame) {
  std::string text;
  for (const double step : axis_marks(frame.first_step, frame.last_step, 8)) {
    if (step != std::floor(step)) continue;
    const double x = frame.x(step);
    text += svg_vertical_line("axis", x, kFloor, kFloor + 5) +
            svg_text({{"x", svg_tenths(x)}, {"y", kFloor + 20}, {"text-anchor", "middle"}},
                     fmt::format("{:g}", step)) +
            "\n";
  }
  return text;
}

std::string axes(const Frame& frame) {
  const std::string lines = fmt::format("M{} {}V{}H{}", kLeft, kTop, kFloor, kWidth - kRight);
  const std::string turned = fmt::format("translate(16 {}) rotate(-90)", (kTop + kFloor) / 2);
  return loss_marks(frame) + step_marks(frame) +
         svg_element("path", {{"class", "axis"}, {"fill", "none"}, {"d", lines}}) + "\n" +
         svg_text(
             {{"x", (kLeft + kWidth - kRight) / 2}, {"y", kHeight - 12}, {"text-anchor", "middle"}},
             "step") +
         "\n" +
         svg_text({{"transform", turned}, {"text-anchor", "middle"}}, "loss, nats per token") +
         "\n";
}

std::string legend(std::string_view name, const SeriesPoint& last, double y) {
  return svg_text({{"x", kLegend + 32}, {"y", y}},
                  fmt::format("{}, {:.3g} at the end", name, last.value)) +
         "\n";
}

std::string train_part(const SeriesPoints& train, const Frame& frame) {
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

std::string valid_part(const SeriesPoints& valid, const Frame& frame) {
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
  const Frame frame = frame_of(curve);
  return svg_document(kWidth, kHeight, curve.title,
                      svg_style(kRules, kDarkRules) +
                          svg_text({{"class", "title"}, {"x", kLeft}, {"y", 34}}, curve.title) +
                          "\n" + axes(frame) + train_part(curve.train, frame) +
                          valid_part(curve.valid, frame));
}

}  // namespace clora
