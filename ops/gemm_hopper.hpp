// cl/gemm_wgmma.cl: products on Hopper's matrix units.
#pragma once

#include "ops/gemm_kernels.hpp"

namespace clora {

inline constexpr std::string_view kGemmWgmma = "gemm_wgmma.cl";

// Any product; s may be made where gemm_wgmma_makes_s(). REQUIRES: a device with wgmma.
void record_gemm_wgmma(Batch& batch, const GemmProduct& p);

// Whether the kernel can make s of a product, and does so faster than a launch before it.
bool gemm_wgmma_makes_s(const Context& context, const GemmProduct& p);

// How a product is cut: tiles of 128 rows and so many columns. shrink: columns of a that share a
// tile's products, where s is made.
struct WgmmaTiles {
  std::uint32_t columns = 256;
  std::uint32_t shrink = 0;
  std::uint32_t stages = 4;
  std::uint32_t cost = 0;  // of the product, in columns of one tile after another

  std::uint32_t width() const { return columns + shrink; }
};
// The width whose last wave of work-groups leaves least of the card idle. shrink: 0, 16 or 64.
WgmmaTiles wgmma_tiles(std::uint32_t rows, std::uint32_t columns, std::uint32_t units,
                       std::uint32_t shrink = 0);

}  // namespace clora
