// The loss curve of a run as an SVG picture, made to be read on light and dark pages.
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace clora {

struct LossPoint {
  std::int64_t step = 0;
  double loss = 0;
};

struct LossCurve {
  std::string title;
  std::vector<LossPoint> train;  // a line, with its running mean where there are many
  std::vector<LossPoint> valid;  // dots; may be empty
};

// Round numbers, at most about `wanted`, that lie in [low, high] at equal distances.
std::vector<double> axis_marks(double low, double high, int wanted);

// A whole SVG document of 720 x 400. Losses that are not finite are left out.
std::string loss_picture(const LossCurve& curve);

}  // namespace clora
