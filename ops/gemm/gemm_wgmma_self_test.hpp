// The self-tests of cl/gemm/gemm_wgmma.cl: one per program, since tiles, problems and extras select
// different programs. A test runs the exact program on small matrices of the same kind; the outcome
// is stored under the program's options.
#pragma once

#include <span>

#include "ops/gemm/gemm_self_test_problems.hpp"

namespace clora {

// Whether the program that record_gemm_wgmma() uses for the problems has passed.
bool gemm_wgmma_passed(Context& context, std::span<const GemmProduct> problems);

}  // namespace clora
