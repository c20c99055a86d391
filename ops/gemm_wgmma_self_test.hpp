// The self-test of products on NVIDIA's matrix units: of each program that products take, since its
// tiles, problems and extras make it another kernel. The very program runs on small matrices of its
// kind, several tiles each way and cut at their ends; its outcome is kept under its options.
#pragma once

#include <span>
#include <vector>

#include "ops/gemm_kernels.hpp"
#include "ops/variant_dispatch.hpp"

namespace clora {

// Whether the program of cl/gemm_wgmma.cl that record_gemm_wgmma() takes for the problems has
// passed.
bool gemm_wgmma_passed(Context& context, std::span<const GemmProduct> problems);
// The same of cl/gemm_mma.cl and record_gemm_mma().
bool gemm_mma_passed(Context& context, const GemmProduct& p);

// Small problems of the kind of these: equal types, extras and classes of ranks, and so equal
// options of their program.
std::vector<GemmProduct> small_problems_like(SelfTest& test, std::span<const GemmProduct> problems);

}  // namespace clora
