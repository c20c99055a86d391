// Roofline peaks: the best rates of this device, measured once and cached on disk, so that profiles
// and benches can report how close to the roofline an op runs.
//
// Bandwidths are those of buffers far larger than the caches, and count both the bytes that a copy
// reads and those that it writes. The best of several runs counts, since other programs can only
// slow one down. The peak of a matrix unit is that of the instructions that ops use: bf16 dot
// products on CPUs with avx512_bf16, wgmma or mma products on NVIDIA GPUs.
// Threads: those of Context.
#pragma once

#include <filesystem>
#include <optional>

#include "clora/runtime/context.hpp"

namespace clora {

// Measures on `context`, including the device's matrix unit unless the variant is portable. Takes
// half a second to two seconds, temporarily 512 MiB of the pool (less if the pool has less), and
// the build of its kernels. Errors: out_of_memory, device, build_failed.
RooflinePeaks measure_peaks(Context& context);

// The peaks that store_peaks() has written for this device, driver and OpenCL version; empty if
// there are none or the file is damaged.
std::optional<RooflinePeaks> stored_peaks(const std::filesystem::path& cache_folder,
                                          const Device& device);
// Writes cache_folder/peaks/..., atomically. Errors: io.
void store_peaks(const std::filesystem::path& cache_folder, const Device& device,
                 const RooflinePeaks& peaks);

// The peaks cached in config.cache_folder; otherwise measures them on a new Context and caches
// them. A failure to cache them is a warning to config.hooks. The peak of the matrix unit is 0 if
// `config` does not use it. Errors: those of Context and measure_peaks().
RooflinePeaks peaks_of(const ContextConfig& config);
// Always measures all of the device's peaks, and caches them.
RooflinePeaks measured_peaks_of(const ContextConfig& config);

}  // namespace clora
