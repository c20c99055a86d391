// The choice of a tiling for cl/gemm/gemm.cl, and of its split over work-groups.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "ops/gemm/gemm_groups.hpp"
#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

// One tiling of cl/gemm/gemm.cl: a work-group computes rows x columns elements of y, an item
// item_rows x item_columns of them; `steps` of K are staged at a time.
struct GemmTile {
  static constexpr std::uint32_t kVector = 4;  // elements that are read and written together
  std::uint32_t rows = 0, columns = 0, steps = 0, item_rows = 0, item_columns = 0;

  std::uint32_t items() const { return rows / item_rows * (columns / item_columns); }
  std::size_t local_bytes() const { return 8 * std::size_t{steps} * (rows + columns + 8); }
  // Whether the kernel supports this tiling and the device has the resources for it.
  bool fits(const Device& device) const;
  bool operator==(const GemmTile&) const = default;
};

// The tilings among which an op chooses, the largest first. The last fits every OpenCL device.
std::span<const GemmTile> gemm_tiles_portable();

// The costs by which a plan is chosen (ops/tuned/costs.hpp). Their unit is an fma of an item at
// full speed.
struct GemmPortableCosts {
  static constexpr std::string_view kModel = "gemm_portable";
  double busy_items = 0;   // items of a compute unit that hide the latency of its arithmetic and
                           // local memory
  double local_read = 0;   // a float read from local memory
  double group_steps = 0;  // a group's start, first fetch and epilogue, in steps of K
  double slice = 0;        // a compute unit writing and adding an element of a slice
  double launch = 0;       // a further launch, for a compute unit
  double max_slices = 0;
  double min_slice_steps = 0;

  static void each(auto& costs, auto f) {
    f("busy_items", costs.busy_items);
    f("local_read", costs.local_read);
    f("group_steps", costs.group_steps);
    f("slice", costs.slice);
    f("launch", costs.launch);
    f("max_slices", costs.max_slices);
    f("min_slice_steps", costs.min_slice_steps);
  }
};

// One product, or several that one launch can compute: those of can_be_grouped()
// (ops/gemm/gemm_groups.hpp) without column factors and row groups, of one type of x and of w; or
// forward products with different inputs that have no extras and are alike in the rest, with any
// scale (shrinks). The kernel computes no shrink: REQUIRES for all functions that products have
// none, and that s is f32.
using GemmPortableProblems = std::span<const GemmProduct>;

// The columns and the steps of K of each problem of a launch, zeros for absent ones. A sum has one
// output.
struct GemmPortableSizes {
  std::uint32_t rows = 0;
  std::array<std::uint32_t, kMaxGemmGroup> columns{}, k{};
  bool is_sum = false;

  std::uint32_t tiles(const GemmTile& tile) const;
  std::uint32_t all_columns() const;
  std::uint32_t steps() const;  // of a tile: of a sum, those of all problems
  bool support(const GemmTile& tile) const;
};

GemmPortableSizes sizes_of(GemmPortableProblems problems);

// A tiling, and which tiles are computed in slices of K by separate groups: those after the first
// whole_tiles ones, in the kernel's order.
struct GemmPortablePlan {
  GemmTile tile;
  std::uint32_t whole_tiles = 0;
  std::uint32_t slices = 1;
  std::uint32_t slice_steps = 0;  // a multiple of tile.steps; the last slice may be shorter
};
// The plan with the least estimated time.
GemmPortablePlan plan_gemm_portable(const Device& device, const GemmPortableCosts& costs,
                                    GemmPortableProblems problems);
// The same with this tiling. REQUIRES: tile.fits(device), sizes_of(problems).support(tile).
GemmPortablePlan plan_gemm_portable_with(const GemmTile& tile, const Device& device,
                                         const GemmPortableCosts& costs,
                                         GemmPortableProblems problems);
// Whether one launch is estimated to be as fast as one for each problem.
bool gemm_portable_is_faster_grouped(const Device& device, const GemmPortableCosts& costs,
                                     GemmPortableProblems problems);

}  // namespace clora
