// gemm: products of activations with a frozen weight matrix in any storage type.
//
//   forward   y [M, N] = epilogue(x [M, K] w [N, K]^T): ops/gemm/epilogue.hpp
//   backward  dx [M, K] (+)= dy [M, N] w [N, K] (+ s [M, R] u [R, K])
//
// The low-rank term s u shares the accumulators of the main product: an adapter costs no extra pass
// over y. The backward takes no column_scale: it would scale dy, which the gradients of the adapter
// read scaled as well, so the caller scales it once. Nor does it take row groups. Activations (x,
// y, dy, dx) are each f32, bf16 or f16, w is any DType except integers, s is f32, bf16 or f16, u is
// f32. w is frozen: it has no gradient. A result that is not f32 is rounded to nearest even at the
// end; the kernels for CPUs support only f32, so others are converted before and after them.
// Arithmetic is f32; in variants with a matrix unit the operands of large products
// (rounds_to_bf16() of ops/gemm/gemm_plan.hpp) are rounded to bf16, and x of skinny products with
// quantised packed w to 16-bit integers; sums stay f32.
#pragma once

#include <span>

#include "clora/ops/gemm/epilogue.hpp"
#include "clora/ops/gemm/product_input.hpp"
#include "clora/ops/quant/weight.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// y = epilogue(x w^T). Overwrites y. REQUIRES: y aliases neither x nor low_rank.s.
void record_gemm(Batch& batch, const Tensor& y, const Tensor& x, const Weight& w,
                 const Epilogue& epilogue = {});

// One output of several products with the same x.
struct GemmOutput {
  Tensor y;
  Weight w;
  Epilogue epilogue = {};
};
// Each as by record_gemm(); in one launch if a kernel can. Overwrites an x that is computed.
void record_gemms(Batch& batch, const ProductInput& x, std::span<const GemmOutput> outputs);

enum class Accumulate { no, yes };

// dx = dy w + low_rank, or dx += the same. REQUIRES: dx aliases neither dy nor low_rank.s; no row
// groups.
void record_gemm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Weight& w,
                          Accumulate accumulate, const LowRankTerm& low_rank = {});

// One term of a gradient that is a sum of products.
struct GemmTerm {
  Tensor dy;
  Weight w;
  LowRankTerm low_rank = {};
};
// dx = the sum of dy w + low_rank, or dx += it; in one launch and rounded once if a kernel can.
// REQUIRES: as record_gemm_backward() for each term.
void record_gemm_backward_sum(Batch& batch, const Tensor& dx, std::span<const GemmTerm> terms,
                              Accumulate accumulate);

// Whether large products of a Context round their operands to bf16.
bool products_round_to_bf16(const Context& context);

// Flops and bytes of one product with M rows (w counted in its storage type).
Cost gemm_cost(std::int64_t m, const Weight& w);

}  // namespace clora
