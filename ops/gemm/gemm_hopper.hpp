// cl/gemm/gemm_wgmma.cl: products on Hopper's tensor cores (wgmma).
#pragma once

#include <array>
#include <span>
#include <string>

#include "ops/gemm/gemm_kernels.hpp"
#include "ops/gemm/gemm_wgmma_row_shrink.hpp"

namespace clora {

inline constexpr std::string_view kGemmWgmma = "gemm_wgmma.cl";

// The costs by which its tiles are chosen (ops/tuned/costs.hpp), in columns of a tile times boxes
// of 64 K steps, one after another: about 2.7 ns each on an H200.
struct GemmWgmmaCosts {
  static constexpr std::string_view kModel = "gemm_wgmma";
  double tile_columns = 0;   // of a tile next to its own: filling the ring and storing
  double min_columns = 0;    // narrower tiles take as long as this: they wait for x
  double shrink_row = 0;     // of a separate launch for the shrink: reading a row's box of x,
  double shrink_launch = 0;  // and everything else
  double slice = 0;          // filling one more ring and finding the last slice
  double slice_column = 0;   // storing or adding a slice, per column
  double max_slices = 0;     // with more, adding them up takes longer than they save

  static void each(auto& costs, auto f) {
    f("tile_columns", costs.tile_columns);
    f("min_columns", costs.min_columns);
    f("shrink_row", costs.shrink_row);
    f("shrink_launch", costs.shrink_launch);
    f("slice", costs.slice);
    f("slice_column", costs.slice_column);
    f("max_slices", costs.max_slices);
  }
};

// What the plan of a product depends on next to it.
struct WgmmaDevice {
  std::uint32_t units = 1;  // compute units of the GPU
  GemmWgmmaCosts costs;
};
WgmmaDevice wgmma_device(const Context& context);

// Any product, or several that satisfy gemm_wgmma_can_group(); the shrink may be fused if
// gemm_wgmma_fuses_shrink(). REQUIRES: a device with wgmma; gemm_wgmma_passed()
// (ops/gemm/gemm_wgmma_self_test.hpp), which the caller has checked.
void record_gemm_wgmma(Batch& batch, std::span<const GemmProduct> problems);

// Whether one launch can compute them: two or three forward products of one x, or backward products
// of one sum, which are alike except for their widths.
bool gemm_wgmma_can_group(const Context& context, std::span<const GemmProduct> problems);

// Whether the kernel can fuse the shrink of a product faster than a separate launch would be.
bool gemm_wgmma_fuses_shrink(const Context& context, const GemmProduct& p);

// The sizes that decide the tiling of a product.
struct WgmmaSize {
  std::uint32_t rows = 0;
  std::array<std::uint32_t, 3> columns{};  // of each problem
  std::uint32_t shrink = 0;                // columns of a in a tile's accumulator: 0, 16 or 64
  bool full_boxes = false;  // operands are loaded in boxes of 64 x 64: w transposed, or u
  bool stages_y = false;    // tiles of a bf16 y are stored through shared memory
  std::uint32_t boxes = 1;  // of 64 K steps, of all problems that are summed
};

// Tiles of 128 rows and `columns` columns; their K extent may be split into slices, one work-group
// each.
struct WgmmaTiles {
  std::uint32_t columns = 256;
  std::uint32_t shrink = 0;
  std::uint32_t staged = 0;       // columns that are stored through shared memory
  std::uint32_t stages = 4;       // of the ring
  std::uint32_t count = 0;        // of all problems
  std::uint32_t slices = 1;       // of a tile's K extent
  double cost = 0;                // of the product, in columns times boxes of steps, sequentially
  RowShrinkPlan row_shrink = {};  // by groups that no tile needs

  std::uint32_t width() const { return columns + shrink; }
  std::uint32_t stage_bytes(bool full_boxes) const;
  std::uint32_t staged_bytes() const;
};
// The tiling of record_gemm_wgmma() for the problems, and the -D options of its program.
struct WgmmaProgram {
  WgmmaTiles tiles;
  std::string options;
};
WgmmaProgram gemm_wgmma_program(const WgmmaDevice& device, std::span<const GemmProduct> problems);
// The tiling of problems of any size with another program's widths and ring, for its self-test. K
// is split into at most three slices. If types, extras and ranks are alike, the options are equal.
WgmmaProgram gemm_wgmma_program_like(const WgmmaProgram& program,
                                     std::span<const GemmProduct> problems);
// As record_gemm_wgmma(), with the given program. REQUIRES: equal options.
void record_gemm_wgmma_by(Batch& batch, std::span<const GemmProduct> problems,
                          const WgmmaProgram& program);

// The width whose last wave of work-groups leaves the least of the GPU idle, with as many ring
// stages as shared memory allows. If there are fewer tiles than half the compute units, K is split
// if that saves more than adding the slices costs.
WgmmaTiles wgmma_tiles(const WgmmaDevice& device, const WgmmaSize& size);

}  // namespace clora
