// gemm: products of activations with a frozen weight matrix in any storage type.
//
//   forward   y [M, N] = x [M, K] w [N, K]^T (+ bias [N]) (+ residual [M, N])
//                        (+ s [M, R] u [R, N])
//   backward  dx [M, K] (+)= dy [M, N] w [N, K] (+ s [M, R] u [R, K])
//
// The last term is a low-rank product that shares the accumulators of the main one: an adapter
// costs no extra pass over y. Activations (x, y, dy, dx) are each f32, bf16 or f16, w is any DType
// except integers, s is f32, bf16 or f16, u is f32. w is frozen: it has no gradient. A result that
// is not f32 is rounded to nearest even at the end; the kernels for CPUs support only f32, so
// others are converted before and after them. Arithmetic is f32; in variants with a matrix unit the
// operands of large products (rounds_to_bf16() of ops/gemm/gemm_plan.hpp) are rounded to bf16, and
// x of skinny products with quantised packed w to 16-bit integers; sums stay f32.
#pragma once

#include <span>

#include "clora/ops/quant/weight.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// scale * s u, added inside a product. If s is empty, nothing is added. If a is given, the op first
// computes s from the product's own input: s = a_scale * input a^T, overwritten; in the same launch
// if the kernel can, with a cast to bf16 if w is.
struct LowRankTerm {
  Tensor s;  // [M, R], f32, bf16 or f16
  Tensor u;  // [R, columns of the output] f32
  float scale = 1;
  Tensor a = {};  // [R, columns of the input] f32
  float a_scale = 1;
  // bf16 copies of u and a, or empty: then a product that rounds its operands casts them itself.
  Tensor u_bf16 = {};
  Tensor a_bf16 = {};
};

struct GemmExtras {
  Tensor bias = {};      // [N] f32, or empty
  Tensor residual = {};  // [M, N] of y's type, or empty; may be y itself (y += ...)
  LowRankTerm low_rank = {};
  float scale = 1;  // of x w^T
};

// y = x w^T + extras. Overwrites y. REQUIRES: y aliases neither x nor low_rank.s.
void record_gemm(Batch& batch, const Tensor& y, const Tensor& x, const Weight& w,
                 const GemmExtras& extras = {});

// One output of several products with the same x.
struct GemmOutput {
  Tensor y;
  Weight w;
  GemmExtras extras = {};
};
// Each as by record_gemm(); in one launch if a kernel can.
void record_gemms(Batch& batch, const Tensor& x, std::span<const GemmOutput> outputs);

enum class Accumulate { no, yes };

// dx = dy w + low_rank, or dx += the same. REQUIRES: dx aliases neither dy nor low_rank.s.
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
