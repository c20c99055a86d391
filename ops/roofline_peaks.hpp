// Roofline peaks: what this device does at best, measured once and kept on disk, so that
// profiles and benches can say how near the roofline an op runs.
//
// Bandwidths are of buffers far beyond the caches, with the bytes a copy reads and those it writes
// both counted. The best of several runs counts: other programs only ever make one slower. The
// peak of a matrix unit is that of the instructions which ops reach it by: bf16 dot products on
// CPUs with avx512_bf16, products of a warp group or of a warp on NVIDIA GPUs.
// Threads: those of Context.
#pragma once

#include <filesystem>
#include <optional>

#include "runtime/context.hpp"

namespace clora {

// Measures on `context`, the device's matrix unit too (unless the variant is portable): takes half
// a second to two, 512 MiB of the pool for the time (less where it has less), and kernels that are
// built first. Errors: out_of_memory, device, build_failed.
RooflinePeaks measure_peaks(Context& context);

// What keep_peaks() has written for this device, driver and OpenCL version; nothing where there
// is none, or where the file is damaged.
std::optional<RooflinePeaks> kept_peaks(const std::filesystem::path& cache_folder,
                                        const Device& device);
// Writes cache_folder/ceilings/..., whole or not at all. Errors: io.
void keep_peaks(const std::filesystem::path& cache_folder, const Device& device,
                const RooflinePeaks& peaks);

// Those kept in config.cache_folder; else measured on a Context of its own, and kept. That they
// cannot be kept is a warning to config.hooks. The matrix unit's is 0 where `config` leaves it
// unused. Errors: those of Context and measure_peaks().
RooflinePeaks peaks_of(const ContextConfig& config);
// All of the device's, measured in any case and kept.
RooflinePeaks measured_peaks_of(const ContextConfig& config);

}  // namespace clora
