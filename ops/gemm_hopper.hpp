// cl/gemm_wgmma.cl: products on Hopper's matrix units.
#pragma once

#include <array>
#include <span>
#include <string>

#include "ops/gemm_kernels.hpp"

namespace clora {

inline constexpr std::string_view kGemmWgmma = "gemm_wgmma.cl";

// Any product, or several that gemm_wgmma_can_group(); the shrink may be fused where
// gemm_wgmma_fuses_shrink(). REQUIRES: a device with wgmma. Whoever calls it has seen that
// gemm_wgmma_passed() (ops/gemm_wgmma_self_test.hpp).
void record_gemm_wgmma(Batch& batch, std::span<const GemmProduct> problems);

// Whether one launch can do them: two or three of one x forward, or with one sum backward, which
// are alike in all but their widths.
bool gemm_wgmma_can_group(const Context& context, std::span<const GemmProduct> problems);

// Whether the kernel can fuse the shrink of a product, and does so faster than a launch before it.
bool gemm_wgmma_fuses_shrink(const Context& context, const GemmProduct& p);

// What decides how a product is cut.
struct WgmmaSize {
  std::uint32_t rows = 0;
  std::array<std::uint32_t, 3> columns{};  // of each problem
  std::uint32_t units = 0;                 // of the GPU
  std::uint32_t shrink = 0;  // columns of a that share a tile's products: 0, 16, or 64
  bool whole_boxes = false;  // operands come as boxes of 64 rows and columns: w transposed, or u
  bool stages_y = false;     // tiles of a bf16 y leave through shared memory
  std::uint32_t boxes = 1;   // of 64 steps, of all problems that are summed up
};

// Tiles of 128 rows and so many columns, whose K extent may be split into slices, a work-group
// each.
struct WgmmaTiles {
  std::uint32_t columns = 256;
  std::uint32_t shrink = 0;
  std::uint32_t staged = 0;  // columns that leave through shared memory
  std::uint32_t stages = 4;  // of the ring
  std::uint32_t count = 0;   // of all problems
  std::uint32_t slices = 1;  // of a tile's K extent
  double cost = 0;           // of the product, in columns times boxes of steps, one after another

  std::uint32_t width() const { return columns + shrink; }
  std::uint32_t stage_bytes(bool whole_boxes) const;
  std::uint32_t staged_bytes() const;
};
// How record_gemm_wgmma() cuts the problems, and the -D options of the program that it takes for
// them.
struct WgmmaProgram {
  WgmmaTiles tiles;
  std::string options;
};
// units: compute units of the GPU.
WgmmaProgram gemm_wgmma_program(std::uint32_t units, std::span<const GemmProduct> problems);
// Problems of whatever sizes, by another program's widths and ring: for its self-test. K is
// split into at most three slices. Where types, extras and ranks are alike, so are the options.
WgmmaProgram gemm_wgmma_program_like(const WgmmaProgram& program,
                                     std::span<const GemmProduct> problems);
// As record_gemm_wgmma(), by such a program. REQUIRES: equal options.
void record_gemm_wgmma_by(Batch& batch, std::span<const GemmProduct> problems,
                          const WgmmaProgram& program);

// The width whose last wave of work-groups leaves least of the GPU idle, and a ring as long as
// shared memory allows. Where tiles are fewer than half of the units, K is split if
// that gains more than adding the slices up costs.
WgmmaTiles wgmma_tiles(const WgmmaSize& size);

}  // namespace clora
