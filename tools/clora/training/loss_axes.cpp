#include "tools/clora/training/loss_axes.hpp"

#include <fmt/format.h>

#include "tools/clora/report/series.hpp"
#include "tools/command_line/svg.hpp"

namespace clora {
namespace {

std::string loss_mark(const LossFrame& frame, double loss) {
  const double y = frame.y(loss);
  return svg_horizontal_line("grid", LossFrame::kLeft, LossFrame::kWidth - LossFrame::kRight, y) +
         svg_text({{"x", LossFrame::kLeft - 8}, {"y", svg_tenths(y + 4)}, {"text-anchor", "end"}},
                  fmt::format("{:g}", loss)) +
         "\n";
}

std::string mark_below(const LossFrame& frame, const AxisMark& mark) {
  constexpr double kFloor = LossFrame::kFloor;
  const double x = frame.x(mark.at);
  return svg_vertical_line("axis", x, kFloor, kFloor + 5) +
         svg_text({{"x", svg_tenths(x)}, {"y", kFloor + 20}, {"text-anchor", "middle"}},
                  mark.text) +
         "\n";
}

}  // namespace

std::string loss_axes(const LossFrame& frame, const std::vector<AxisMark>& marks,
                      std::string_view label) {
  constexpr double kRightEnd = LossFrame::kWidth - LossFrame::kRight;
  constexpr double kTop = LossFrame::kTop, kFloor = LossFrame::kFloor;
  std::string text;
  for (const double loss : axis_marks(frame.low, frame.high, 6)) text += loss_mark(frame, loss);
  for (const AxisMark& mark : marks) text += mark_below(frame, mark);
  const std::string lines = fmt::format("M{} {}V{}H{}", LossFrame::kLeft, kTop, kFloor, kRightEnd);
  const std::string turned = fmt::format("translate(16 {}) rotate(-90)", (kTop + kFloor) / 2);
  return text + svg_element("path", {{"class", "axis"}, {"fill", "none"}, {"d", lines}}) + "\n" +
         svg_text({{"x", (LossFrame::kLeft + kRightEnd) / 2},
                   {"y", LossFrame::kHeight - 12},
                   {"text-anchor", "middle"}},
                  std::string(label)) +
         "\n" +
         svg_text({{"transform", turned}, {"text-anchor", "middle"}}, "loss, nats per token") +
         "\n";
}

}  // namespace clora
