// Which products one launch can compute, for kernels that support groups.
#pragma once

#include <span>

#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

inline constexpr std::size_t kMaxGemmGroup = 3;

// Two or three forward products of one x, or backward products of one sum, which are alike except
// for their widths; rows of y are a multiple of 16 bytes in bf16. Whether their shrinks are fused
// is the kernel's choice.
bool can_be_grouped(std::span<const GemmProduct> problems);

}  // namespace clora
