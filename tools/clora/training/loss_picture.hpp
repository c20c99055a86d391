// The loss curve of a run as an SVG chart, legible on light and dark pages. Pure functions;
// thread-safe.
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
  std::vector<LossPoint> train;  // a line, with its running mean if there are many points
  std::vector<LossPoint> valid;  // dots; may be empty
};

// At most about `wanted` round numbers, evenly spaced in [low, high].
std::vector<double> axis_marks(double low, double high, int wanted);

// A complete SVG document of 720 x 400. Losses that are not finite are omitted.
std::string loss_picture(const LossCurve& curve);

}  // namespace clora
