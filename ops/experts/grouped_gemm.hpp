// grouped_gemm: products of rows with the weights of their experts (ops/experts/router.hpp).
//
//   forward   y [S, N] = scale * x [rows, K] w_e [N, K]^T + low_rank.scale * s [S, R] u_e [R, N]
//   backward  y [S, N] (+)= x [S, K] w_e [K, N] + the same
//
// where e is the expert of the slot. Rows of unused slots, and of experts without a matrix, are
// zeros; if y is accumulated into, they do not change. x and y are each f32, bf16 or f16; w is of
// any storage type; s and u are f32. Experts that have no rows are not read.
#pragma once

#include "clora/ops/experts/router.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/quant/weight.hpp"

namespace clora {

// The matrices of one role of all experts: one after the other, or in a flat f32 buffer, where an
// adapter has them.
struct ExpertMatrices {
  Weight w;             // [X N, K]; or a flat buffer
  Tensor offsets = {};  // [X] u32: of each expert in the flat buffer, in elements; kNoMatrix: none
  Shape shape = {};     // [N, K] of each, with offsets
};
inline constexpr std::uint32_t kNoMatrix = 0xffffffff;

// s u_e, added inside a product; not if s is empty.
struct ExpertLowRank {
  Tensor s;        // [S, R]
  Tensor u;        // a flat buffer
  Tensor offsets;  // [X] u32: of u_e [R, N] in it
  float scale = 1;
};

enum class ExpertRows {
  of_slots,    // x [S, K]
  of_entries,  // x [T, K]: each slot reads the row of its entry
};

// Overwrites y. REQUIRES: y does not alias x; w is in one part.
void record_grouped_gemm(Batch& batch, const Tensor& y, const Tensor& x, ExpertRows rows,
                         const ExpertMatrices& matrices, const ExpertPlan& plan,
                         const ExpertLowRank& low_rank = {}, float scale = 1);
// x [S, K], w_e [K, N].
void record_grouped_gemm_backward(Batch& batch, const Tensor& y, const Tensor& x,
                                  const ExpertMatrices& matrices, const ExpertPlan& plan,
                                  Accumulate accumulate, const ExpertLowRank& low_rank = {});

// out_e [R, N] += scale * the sum over the slots of e of s [S, R]^T x [rows, N], for each expert
// that has a matrix at offsets [X] of the flat buffer `out`. s is f32. Deterministic.
struct ExpertGradient {
  Tensor out;
  Tensor offsets;
  float scale = 1;
};
void record_grouped_gradient(Batch& batch, const ExpertGradient& gradient, const Tensor& s,
                             const Tensor& x, ExpertRows rows, const ExpertPlan& plan);

// Of the entries of a plan, with as many experts as can be active (w counted in its type).
Cost grouped_gemm_cost(const ExpertPlan& plan, const ExpertMatrices& matrices);

}  // namespace clora
