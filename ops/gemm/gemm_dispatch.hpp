// The kernel of a product: the best one for the variant, if its self-test has shown that the driver
// compiles it correctly.
#pragma once

#include <span>

#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

enum class GemmKernel {
  portable,
  skinny_portable,
  wgmma,
  mma,
  tiles,
  bf16_tiles,
  packed,
  skinny,
  skinny_packed,
  skinny_int8
};

GemmKernel dispatch_gemm(Context& context, const GemmProduct& p);

// Whether one grouped launch can compute these problems: all of them use the kernel that supports
// groups, and it has passed its self-test for them.
bool can_group(Context& context, std::span<const GemmProduct> problems);

// Whether `kernel` fuses the shrink of p into its launch. The only place that decides it.
bool fuses_shrink(GemmKernel kernel, const Context& context, const GemmProduct& p);

}  // namespace clora
