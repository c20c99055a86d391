// Products with a weight in several parts (ops/quant/weight.hpp), composed of products with one
// part each, in the order of its rows.
//
//   forward   y[:, n0 : n1] = x part^T, with the same columns of the epilogue
//   backward  dx = the sum of dy[:, n0 : n1] part, + the low-rank term once
//
// Forward, each element is the sum that a product with the whole weight computes. Backward, the
// sum over N is one of partial sums, in f32 and rounded once. More than one row of y, dy or the
// residual has no contiguous columns: these are copied (ops/rowwise/columns.hpp).
#pragma once

#include "clora/ops/quant/weight.hpp"
#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

// Records the product p with `w` in place of p.w, which is empty. `record` records a product with
// one part. REQUIRES: w.is_split().
void record_gemm_in_parts(Batch& batch, const GemmProduct& p, const Weight& w,
                          void (*record)(Batch&, GemmProduct));

}  // namespace clora
