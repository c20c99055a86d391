// The loss curve of a run as an SVG chart, legible on light and dark pages. Pure functions;
// thread-safe.
#pragma once

#include <string>

#include "tools/clora/report/series.hpp"

namespace clora {

struct LossCurve {
  std::string title;
  SeriesPoints train;  // a line, with its running mean if there are many points
  SeriesPoints valid;  // dots; may be empty
};

// A complete SVG document of 720 x 400. Losses that are not finite are omitted.
std::string loss_picture(const LossCurve& curve);

}  // namespace clora
