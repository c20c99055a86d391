// The problems of self-tests of products whose programs depend on types, extras and ranks.
#pragma once

#include <span>
#include <vector>

#include "ops/dispatch/variant_dispatch.hpp"
#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

// Returns small problems with the types, extras and rank classes of `problems`, and so with the
// same options of their program: several tiles in each dimension, the last ones partial.
std::vector<GemmProduct> small_problems_like(SelfTest& test, std::span<const GemmProduct> problems);

// Records problems one by one with the public ops, which use the portable kernels while a reference
// is computed.
void record_by_public_ops(Batch& batch, std::span<const GemmProduct> problems);

}  // namespace clora
