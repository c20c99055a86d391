// cl/gemm_wgmma.cl: products on Hopper's matrix units.
#pragma once

#include "ops/gemm_kernels.hpp"

namespace clora {

inline constexpr std::string_view kGemmWgmma = "gemm_wgmma.cl";

// Any product. REQUIRES: a device with wgmma.
void record_gemm_wgmma(Batch& batch, const GemmProduct& p);

// How a product is cut: tiles of 128 rows and so many columns.
struct WgmmaTiles {
  std::uint32_t columns = 256;
  std::uint32_t stages = 4;
};
// The width whose last wave of work-groups leaves least of the card idle.
WgmmaTiles wgmma_tiles(std::uint32_t rows, std::uint32_t columns, std::uint32_t units);

}  // namespace clora
