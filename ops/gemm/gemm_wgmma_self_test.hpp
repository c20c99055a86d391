// The self-tests of products on NVIDIA's tensor cores: one per program, since tiles, problems and
// extras select different programs. A test runs the exact program on small matrices of the same
// kind, with several tiles in each dimension, the last ones partial; the outcome is stored under
// the program's options.
#pragma once

#include <span>
#include <vector>

#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

// Whether the program of cl/gemm/gemm_wgmma.cl that record_gemm_wgmma() uses for the problems has
// passed.
bool gemm_wgmma_passed(Context& context, std::span<const GemmProduct> problems);
// The same for cl/gemm/gemm_mma.cl and record_gemm_mma().
bool gemm_mma_passed(Context& context, const GemmProduct& p);

// Returns small problems with the types, extras and rank classes of `problems`, and so with the
// same options of their program.
std::vector<GemmProduct> small_problems_like(SelfTest& test, std::span<const GemmProduct> problems);

}  // namespace clora
