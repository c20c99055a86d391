// The self-tests of cl/gemm/gemm_matrix.cl, as those of gemm_wgmma.cl: one per program, on small
// matrices of the same kind.
#pragma once

#include <span>

#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

// Whether the programs that record_gemm_matrix() uses for the problems have passed.
bool gemm_matrix_passed(Context& context, std::span<const GemmProduct> problems);

}  // namespace clora
