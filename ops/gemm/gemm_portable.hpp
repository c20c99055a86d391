// cl/gemm/gemm.cl: products for any device, and the choice of their tile.
#pragma once

#include <cstdint>
#include <span>

#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

// One tiling of cl/gemm/gemm.cl: a work-group computes rows x columns elements of y, an item
// item_rows x item_columns of them; `steps` of K are staged at a time.
struct GemmTile {
  std::uint32_t rows = 0, columns = 0, steps = 0, item_rows = 0, item_columns = 0;

  std::uint32_t items() const { return rows / item_rows * (columns / item_columns); }
  std::size_t local_bytes() const { return 8 * std::size_t{steps} * (rows + columns + 8); }
  // Whether the kernel supports this tiling and the device has the resources for it.
  bool fits(const Device& device) const;
  bool operator==(const GemmTile&) const = default;
};

// The tilings among which an op chooses, the largest first. The last fits every OpenCL device.
std::span<const GemmTile> gemm_tiles_portable();

// One product, or several that one launch can compute: those of can_be_grouped()
// (ops/gemm/gemm_groups.hpp) without column factors and row groups, of one type of x and of w; or
// forward products with different inputs that have no extras and are alike in the rest, with any
// scale (shrinks). The kernel computes no shrink: REQUIRES for all functions that products have
// none, and that s is f32.
using GemmPortableProblems = std::span<const GemmProduct>;

// A tiling, and which tiles are computed in slices of K by separate groups: those after the first
// whole_tiles ones, in the kernel's order.
struct GemmPortablePlan {
  GemmTile tile;
  std::uint32_t whole_tiles = 0;
  std::uint32_t slices = 1;
  std::uint32_t slice_steps = 0;  // a multiple of tile.steps; the last slice may be shorter
};
// The plan with the least estimated time; a tile from the tuned tables takes precedence.
GemmPortablePlan plan_gemm_portable(const Device& device, GemmPortableProblems problems);
// Whether one launch is estimated to be as fast as one for each problem.
bool gemm_portable_is_faster_grouped(const Device& device, GemmPortableProblems problems);

// Records the problems with a given plan. REQUIRES: plan.tile.fits(device).
void record_gemm_portable(Batch& batch, GemmPortableProblems problems,
                          const GemmPortablePlan& plan);

// Whether record_gemm_portable_group() supports these problems, and one launch is as fast as one
// for each of them. Their shrinks are computed in a launch before, also those of a sum.
bool gemm_portable_can_group(const Context& context, GemmPortableProblems problems);
void record_gemm_portable_group(Batch& batch, GemmPortableProblems problems);

// Sets UNROLL_STEPS of cl/gemm/register_tile.clh for tiles of `steps` steps, for the device's
// compiler.
void set_unrolling(Defines& defines, const Device& device, std::uint32_t steps);

}  // namespace clora
