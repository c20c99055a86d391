// cl/gemm_mma.cl: products on the matrix units of NVIDIA GPUs since Ampere.
#pragma once

#include <string>

#include "ops/gemm_kernels.hpp"

namespace clora {

inline constexpr std::string_view kGemmMma = "gemm_mma.cl";

// Any product. REQUIRES: a device with mma; no shrink to fuse.
void record_gemm_mma(Batch& batch, const GemmProduct& p);
// The -D options of the program that it takes.
std::string gemm_mma_options(const GemmProduct& p);

}  // namespace clora
