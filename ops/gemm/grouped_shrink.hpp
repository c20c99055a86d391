// grouped_shrink: the s of products whose rows have several adapters, before the product.
#pragma once

#include "clora/ops/gemm/epilogue.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// term.s [M, R] = term.a_scale * x [M, K] a[adapter of the row] [R, K]^T, in f32. Overwrites the
// rows of s that have an adapter. x and s are each f32, bf16 or f16. REQUIRES: a and row_groups are
// given and have these shapes.
void record_grouped_shrink(Batch& batch, const LowRankTerm& term, const Tensor& x);

}  // namespace clora
