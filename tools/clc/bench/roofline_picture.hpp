// The roofline of a device (Williams, Waterman and Patterson 2009) with kernels in it, as an SVG
// chart legible on light and dark pages. Both axes are logarithmic: flops per byte and flops per
// second, with the measured peaks of memory and arithmetic as roof.
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "clora/runtime/profiling/roofline.hpp"

namespace clora {

struct RooflinePoint {
  std::string name;  // label: "warm", with figures
  double flops_per_byte = 0;
  double flops_per_second = 0;
  bool cold = false;  // drawn as a ring instead of a disc
  bool old = false;   // the baseline kernel
};

struct Roofline {
  std::string title;   // "saxpy of saxpy.cl"
  std::string device;  // device name
  RooflinePeaks peaks;
  std::vector<RooflinePoint> points;
};

// A complete SVG document, 720 wide. Points that are not positive and finite are omitted. A point
// may be above the memory roof if its data came from caches.
// REQUIRES: peaks.known().
std::string roofline_picture(const Roofline& roofline);

}  // namespace clora
