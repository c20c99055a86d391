// grouped_shrink: the s of products whose rows have several adapters, before the products
// (cl/gemm/grouped_shrink.cl).
#pragma once

#include <span>
#include <vector>

#include "clora/ops/gemm/epilogue.hpp"
#include "clora/ops/gemm/product_input.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Terms that one launch shrinks.
inline constexpr std::size_t kMaxGroupedShrinks = 4;

// For each term: s [M, R] = a_scale * factor of the row * x [M, K] a[adapter of the row] [R, K]^T,
// from the bf16 copy of a if the term has one. Overwrites the rows of s that have an adapter, with
// zeros past its ranks. Terms that follow each other and have the same row groups, rank, scale and
// types take one launch. x and s are each f32, bf16 or f16. An x that is computed is overwritten,
// all rows of it. REQUIRES: a and row_groups are given and have these shapes; x is given unless
// grouped_shrinks_compute().
void record_grouped_shrinks(Batch& batch, const ProductInput& x,
                            std::span<const LowRankTerm> terms);

// The same, and returns terms without row groups and a: s u with s [M, adapters * R] of bf16, which
// is zero except in the columns of the row's adapter, and with the stack as u [adapters * R, N].
// The elements of the stack must all be finite. For matrix units that cannot select u by rows.
std::vector<LowRankTerm> record_wide_shrinks(Batch& batch, const ProductInput& x,
                                             std::span<const LowRankTerm> terms);

// Whether either function, with these terms, computes x in its launch: x is to be computed, all
// terms take one launch, and the device is no CPU, whose groups would each compute full rows again.
bool grouped_shrinks_compute(const Context& context, const ProductInput& x,
                             std::span<const LowRankTerm> terms);

}  // namespace clora
