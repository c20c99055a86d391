// The cost of work and the peak rates of a device, which together give the minimum time for the
// work (the roofline model, Williams, Waterman and Patterson 2009).
#pragma once

#include <algorithm>
#include <string>

namespace clora {

// The bytes moved and flops computed by one launch, from an op's xxx_cost().
struct Cost {
  double flops = 0;
  double bytes = 0;
  friend auto operator<=>(const Cost&, const Cost&) = default;
};

// The peak rates of a device, measured by ops/roofline_peaks/roofline_peaks.hpp. 0: unknown.
struct RooflinePeaks {
  double copy_bytes_per_second = 0;    // read and written, far beyond the caches
  double read_bytes_per_second = 0;    // read alone, far beyond the caches
  double f32_flops_per_second = 0;     // of fused multiply-adds, two flops each
  double matrix_flops_per_second = 0;  // of a matrix unit; 0 if none is used
  double barrier_seconds = 0;          // one barrier of a work-group of up to 256 work-items
  double launch_seconds = 0;           // for each additional launch in a batch
  double wake_seconds = 0;             // for enqueueing one launch and waiting for it

  bool known() const noexcept { return copy_bytes_per_second > 0 && f32_flops_per_second > 0; }
  double bytes_per_second() const noexcept {
    return std::max(copy_bytes_per_second, read_bytes_per_second);
  }
  double flops_per_second() const noexcept {
    return std::max(f32_flops_per_second, matrix_flops_per_second);
  }
};

// "31.2 GB/s copied, ..." for people. REQUIRES: peaks.known().
std::string peaks_text(const RooflinePeaks& peaks);

// The minimum time for `cost` if data comes from memory; cached data can be faster.
// REQUIRES: peaks.known().
inline double roofline_seconds(const Cost& cost, const RooflinePeaks& peaks) {
  return std::max(cost.bytes / peaks.bytes_per_second(), cost.flops / peaks.flops_per_second());
}

}  // namespace clora
