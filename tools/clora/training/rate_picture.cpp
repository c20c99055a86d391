#include "tools/clora/training/rate_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/clora/training/loss_axes.hpp"
#include "tools/command_line/svg.hpp"

namespace clora {
namespace {

constexpr const char* kRules = R"(  .axis { stroke: #888 }
  .smooth { fill: none; stroke: #2a7de1; stroke-width: 2; stroke-linejoin: round }
  .each { fill: #2a7de1; fill-opacity: .35 }
  .pick { stroke: #e8710a; stroke-width: 2; stroke-dasharray: 4 4 }
)";
constexpr const char* kDarkRules = ".smooth { stroke: #6aabf7 } .each { fill: #6aabf7 }";

double x_of(const LossFrame& frame, double rate) { return frame.x(std::log10(rate)); }
double y_of(const LossFrame& frame, double loss) {
  return frame.y(std::clamp(loss, frame.low, frame.high));
}

// Losses far above the first one are drawn at the upper border.
LossFrame frame_of(const RateSearch& search) {
  double low = search.first_loss;
  for (const RatePoint& point : search.points) {
    low = std::min(low, search.first_loss + point.change);
  }
  const double above = std::max(search.first_loss - low, 0.05 * std::abs(search.first_loss) + 1e-6);
  return {std::floor(std::log10(search.points.front().learning_rate)),
          std::ceil(std::log10(search.points.back().learning_rate) + 1e-9), low - 0.05 * above,
          search.first_loss + above};
}

std::vector<AxisMark> decades(const LossFrame& frame) {
  std::vector<AxisMark> marks;
  for (double decade = frame.first; decade <= frame.last; ++decade) {
    marks.push_back({decade, fmt::format("1e{:g}", decade)});
  }
  return marks;
}

std::string curve(const RateSearch& search, const LossFrame& frame) {
  std::string places, dots;
  for (const RatePoint& point : search.points) {
    const double x = x_of(frame, point.learning_rate);
    places += fmt::format("{:.1f},{:.1f} ", x, y_of(frame, search.first_loss + point.smoothed));
    dots +=
        svg_element("circle", {{"class", "each"},
                               {"cx", svg_tenths(x)},
                               {"cy", svg_tenths(y_of(frame, search.first_loss + point.change))},
                               {"r", 2.5}}) +
        "\n";
  }
  return dots + svg_element("polyline", {{"class", "smooth"}, {"points", places}}) + "\n";
}

std::string suggestion(const RateSearch& search, const LossFrame& frame) {
  if (!search.suggested) return {};
  const double x = x_of(frame, *search.suggested);
  const bool is_right = x > LossFrame::kWidth / 2;
  return svg_vertical_line("pick", x, LossFrame::kTop, LossFrame::kFloor) +
         svg_text({{"x", svg_tenths(is_right ? x - 6 : x + 6)},
                   {"y", LossFrame::kTop + 12},
                   {"text-anchor", is_right ? "end" : "start"}},
                  fmt::format("suggested: {:.2g}", *search.suggested)) +
         "\n";
}

}  // namespace

std::string rate_picture(const RateSearch& search, const std::string& title) {
  const LossFrame frame = frame_of(search);
  return svg_document(
      LossFrame::kWidth, LossFrame::kHeight, title,
      svg_style(kRules, kDarkRules) +
          svg_text({{"class", "title"}, {"x", LossFrame::kLeft}, {"y", 34}}, title) + "\n" +
          loss_axes(frame, decades(frame), "learning rate") + curve(search, frame) +
          suggestion(search, frame));
}

}  // namespace clora
