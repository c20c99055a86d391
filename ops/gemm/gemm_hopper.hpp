// cl/gemm/gemm_wgmma.cl: products on Hopper's tensor cores (wgmma).
#pragma once

#include <span>
#include <string>

#include "ops/gemm/gemm_kernels.hpp"
#include "ops/gemm/gemm_wgmma_tiles.hpp"

namespace clora {

inline constexpr std::string_view kGemmWgmma = "gemm_wgmma.cl";

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

}  // namespace clora
