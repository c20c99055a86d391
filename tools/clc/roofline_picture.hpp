// The roofline of a device (Williams, Waterman and Patterson 2009) with kernels in it, as an SVG
// picture, made to be read on light and dark pages: both axes logarithmic, flops a byte against
// flops a second, under what memory and arithmetic were measured to give at best.
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runtime/roofline.hpp"

namespace clora {

struct RooflinePoint {
  std::string name;  // "warm", with figures
  double flops_per_byte = 0;
  double flops_per_second = 0;
  bool cold = false;  // a ring instead of a disc
  bool old = false;   // of the kernel that is compared with
};

struct Roofline {
  std::string title;   // "saxpy of saxpy.cl"
  std::string device;  // its name
  RooflinePeaks peaks;
  std::vector<RooflinePoint> points;
};

// A whole SVG document, 720 wide. Points that are not finite and above 0 are left out. Points may
// lie above the roof of memory: their data came from caches.
// REQUIRES: peaks.known().
std::string roofline_picture(const Roofline& roofline);

}  // namespace clora
