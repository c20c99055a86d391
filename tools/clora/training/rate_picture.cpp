#include "tools/clora/training/rate_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/clora/training/loss_picture.hpp"
#include "tools/command_line/svg.hpp"

namespace clora {
namespace {

constexpr double kWidth = 720, kHeight = 400;
constexpr double kLeft = 64, kRight = 24, kTop = 48, kBottom = 52;
constexpr double kFloor = kHeight - kBottom;

constexpr const char* kRules = R"(  .axis { stroke: #888 }
  .smooth { fill: none; stroke: #2a7de1; stroke-width: 2; stroke-linejoin: round }
  .each { fill: #2a7de1; fill-opacity: .35 }
  .pick { stroke: #e8710a; stroke-width: 2; stroke-dasharray: 4 4 }
)";
constexpr const char* kDarkRules = ".smooth { stroke: #6aabf7 } .each { fill: #6aabf7 }";

struct Frame {         // maps values to the chart
  double first, last;  // decades
  double low, high;    // losses

  double x(double rate) const {
    return kLeft + (std::log10(rate) - first) / (last - first) * (kWidth - kLeft - kRight);
  }
  double y(double loss) const {
    const double shown = std::clamp(loss, low, high);
    return kFloor - (shown - low) / (high - low) * (kHeight - kTop - kBottom);
  }
};

// Losses far above the first one are drawn at the upper border.
Frame frame_of(const RateSearch& search) {
  double low = search.first_loss;
  for (const RatePoint& point : search.points) {
    low = std::min(low, search.first_loss + point.change);
  }
  const double above = std::max(search.first_loss - low, 0.05 * std::abs(search.first_loss) + 1e-6);
  return {std::floor(std::log10(search.points.front().learning_rate)),
          std::ceil(std::log10(search.points.back().learning_rate) + 1e-9), low - 0.05 * above,
          search.first_loss + above};
}

std::string marks(const Frame& frame) {
  std::string text;
  for (const double loss : axis_marks(frame.low, frame.high, 6)) {
    const double y = frame.y(loss);
    text += svg_horizontal_line("grid", kLeft, kWidth - kRight, y) +
            svg_text({{"x", kLeft - 8}, {"y", svg_tenths(y + 4)}, {"text-anchor", "end"}},
                     fmt::format("{:g}", loss)) +
            "\n";
  }
  for (double decade = frame.first; decade <= frame.last; ++decade) {
    const double x = frame.x(std::pow(10.0, decade));
    text += svg_vertical_line("axis", x, kFloor, kFloor + 5) +
            svg_text({{"x", svg_tenths(x)}, {"y", kFloor + 20}, {"text-anchor", "middle"}},
                     fmt::format("1e{:g}", decade)) +
            "\n";
  }
  return text;
}

std::string axes(const Frame& frame) {
  const std::string lines = fmt::format("M{} {}V{}H{}", kLeft, kTop, kFloor, kWidth - kRight);
  const std::string turned = fmt::format("translate(16 {}) rotate(-90)", (kTop + kFloor) / 2);
  return marks(frame) + svg_element("path", {{"class", "axis"}, {"fill", "none"}, {"d", lines}}) +
         "\n" +
         svg_text(
             {{"x", (kLeft + kWidth - kRight) / 2}, {"y", kHeight - 12}, {"text-anchor", "middle"}},
             "learning rate") +
         "\n" +
         svg_text({{"transform", turned}, {"text-anchor", "middle"}}, "loss, nats per token") +
         "\n";
}

std::string curve(const RateSearch& search, const Frame& frame) {
  std::string places, dots;
  for (const RatePoint& point : search.points) {
    const double x = frame.x(point.learning_rate);
    places += fmt::format("{:.1f},{:.1f} ", x, frame.y(search.first_loss + point.smoothed));
    dots += svg_element("circle", {{"class", "each"},
                                   {"cx", svg_tenths(x)},
                                   {"cy", svg_tenths(frame.y(search.first_loss + point.change))},
                                   {"r", 2.5}}) +
            "\n";
  }
  return dots + svg_element("polyline", {{"class", "smooth"}, {"points", places}}) + "\n";
}

std::string suggestion(const RateSearch& search, const Frame& frame) {
  if (!search.suggested) return {};
  const double x = frame.x(*search.suggested);
  const bool is_right = x > kWidth / 2;
  return svg_vertical_line("pick", x, kTop, kFloor) +
         svg_text({{"x", svg_tenths(is_right ? x - 6 : x + 6)},
                   {"y", kTop + 12},
                   {"text-anchor", is_right ? "end" : "start"}},
                  fmt::format("suggested: {:.2g}", *search.suggested)) +
         "\n";
}

}  // namespace

std::string rate_picture(const RateSearch& search, const std::string& title) {
  const Frame frame = frame_of(search);
  return svg_document(kWidth, kHeight, title,
                      svg_style(kRules, kDarkRules) +
                          svg_text({{"class", "title"}, {"x", kLeft}, {"y", 34}}, title) + "\n" +
                          axes(frame) + curve(search, frame) + suggestion(search, frame));
}

}  // namespace clora
