// cl/gemm/gemm_mma.cl: products on the tensor cores of NVIDIA GPUs since Ampere (mma).
#pragma once

#include <string>

#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

inline constexpr std::string_view kGemmMma = "gemm_mma.cl";

// Any product. REQUIRES: a device with mma; no shrink to fuse.
void record_gemm_mma(Batch& batch, const GemmProduct& p);
// The -D options of its program.
std::string gemm_mma_options(const GemmProduct& p);

}  // namespace clora
