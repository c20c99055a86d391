// The frame and the axes of the charts of losses: losses upwards, anything to the right. Pure
// functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

// Maps values to a chart of kWidth x kHeight.
struct LossFrame {
  static constexpr double kWidth = 720, kHeight = 400;
  static constexpr double kLeft = 64, kRight = 24, kTop = 48, kBottom = 52;
  static constexpr double kFloor = kHeight - kBottom;

  double first = 0, last = 1;  // at the left and at the right end
  double low = 0, high = 1;    // losses at the lower and at the upper end

  double x(double at) const {
    return kLeft + (at - first) / (last - first) * (kWidth - kLeft - kRight);
  }
  double y(double loss) const {
    return kFloor - (loss - low) / (high - low) * (kHeight - kTop - kBottom);
  }
};

// A mark of the horizontal axis.
struct AxisMark {
  double at = 0;
  std::string text = {};
};

// SVG elements: both axes, with marks and labels. `label` is that of the horizontal axis.
std::string loss_axes(const LossFrame& frame, const std::vector<AxisMark>& marks,
                      std::string_view label);

}  // namespace clora
