// Which kernel a product takes: the one that serves the variant best, where its self-test has shown
// that the driver builds it right.
#pragma once

#include <span>

#include "ops/gemm_kernels.hpp"

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

// Whether one grouped launch can do these problems: all want the kernel that takes groups, and it
// has passed its self-test for these.
bool can_group(Context& context, std::span<const GemmProduct> problems);

// Whether `kernel` fuses the shrink of p into its launch: the one place that says so.
bool fuses_shrink(GemmKernel kernel, const Context& context, const GemmProduct& p);

}  // namespace clora
