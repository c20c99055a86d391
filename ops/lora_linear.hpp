// lora_linear: a frozen linear layer with a low-rank adapter (Hu et al., 2021).
//
//   s  = drop(x) a^T                     [T, R]   saved for the backward
//   y  = x w^T + bias + scale * s b^T    (+ residual)
//   db += scale * dy^T s                 ds = scale * dy b
//   da += ds^T drop(x)                   dx (+)= dy w + drop'(ds a)
//
// b [N, R] is held transposed, bt [R, N]: then the forward's and the backward's low-rank terms have
// the same form, and so have the two gradients. Without dropout the adapter shares the accumulators
// of the base product, which computes s, and ds, in its launch where its kernel can (ops/gemm.hpp,
// LowRankTerm). x, y, dx, dy and s are f32 or bf16 each, a residual is of y's type; what belongs to
// the adapter is f32. On Hopper's matrix units one read of dy gives db and ds.
#pragma once

#include <span>
#include <vector>

#include "ops/gemm.hpp"
#include "ops/lora_gradient.hpp"

namespace clora {

struct LinearWeights {
  Tensor w;     // [N, K], any storage type
  Tensor bias;  // [N] f32, or empty
};

// Dropout of the adapter's input; the mask is a function of (seed, step, site, element).
struct LoraDropout {
  float probability = 0;   // 0: none
  Tensor seed_and_step;    // u32 [2] on the device; needed where probability > 0
  std::uint32_t site = 0;  // differs for each layer of the model
};

struct LoraWeights {
  Tensor a;   // [R, K] f32; empty: no adapter, the op is the plain linear layer
  Tensor bt;  // [R, N] f32
  float scale = 1;
  LoraDropout dropout = {};
  // a and bt cast to bf16, kept so by the caller; or empty: products that round do it each time.
  Tensor a_bf16 = {};
  Tensor bt_bf16 = {};
  bool empty() const noexcept { return a.empty(); }
};

// Accumulated into (+=).
struct LoraGradients {
  Tensor da;   // [R, K]
  Tensor dbt;  // [R, N]
};

// Overwrites y [T, N] and s [T, R] (s may be empty where lora is). residual may be y itself or
// empty.
void record_lora_linear(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& x,
                        const LinearWeights& weights, const LoraWeights& lora,
                        const Tensor& residual = {});

// dx [T, K] is overwritten or accumulated into; empty dx: it is not wanted. Gradients accumulate.
// x and s are what the forward had.
struct LoraLinearSaved {
  Tensor x;  // [T, K]
  Tensor s;  // [T, R]
};
void record_lora_linear_backward(Batch& batch, const Tensor& dx, const LoraGradients& gradients,
                                 const Tensor& dy, const LoraLinearSaved& saved,
                                 const LinearWeights& weights, const LoraWeights& lora,
                                 Accumulate accumulate_dx);

// One of several layers with the same input.
struct LoraOutput {
  Tensor y;
  Tensor s;
  LinearWeights weights;
  LoraWeights lora;
};
// Each as record_lora_linear() has it; in one product where a kernel can.
void record_lora_linears(Batch& batch, const Tensor& x, std::span<const LoraOutput> outputs);

struct LoraBranch {
  LoraGradients gradients;
  Tensor dy;
  Tensor s;
  LinearWeights weights;
  LoraWeights lora;
};
// Their backward: dx is the sum over the layers, or dx += it; in few launches where kernels can.
void record_lora_linears_backward(Batch& batch, const Tensor& dx, const Tensor& x,
                                  std::span<const LoraBranch> branches, Accumulate accumulate_dx);

// The same in two steps, for callers that make x only after dx: first dx and all dbt, which gives
// the pending gradients; then da, which `deferred` may hold back.
struct PendingGradient {
  Tensor da;  // [R, K] += ds^T drop(x)
  Tensor ds;  // [T, R]
  LoraDropout dropout;
};
std::vector<PendingGradient> record_lora_linears_dx(Batch& batch, const Tensor& dx,
                                                    std::span<const LoraBranch> branches,
                                                    Accumulate accumulate_dx,
                                                    DeferredGradients& deferred);
void record_lora_linears_da(Batch& batch, const Tensor& x, std::span<const PendingGradient> pending,
                            DeferredGradients& deferred);

// The unfused reference: for tests, and the baseline of benches.
void record_lora_linear_unfused(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& x,
                                const LinearWeights& weights, const LoraWeights& lora,
                                const Tensor& residual = {});

// out [T, R] = scale * x [T, K] a [R, K]^T: the shrink. Overwrites out.
void record_lora_shrink(Batch& batch, const Tensor& out, const Tensor& x, const Tensor& a,
                        float scale);
// out [R, K] += scale * s [T, R]^T x [T, K]: the adapter gradients; s and x f32 or bf16. Same bits
// every run.
void record_lora_gradient(Batch& batch, const Tensor& out, const Tensor& s, const Tensor& x,
                          float scale);

Cost lora_linear_cost(std::int64_t rows, const LinearWeights& weights, std::int64_t rank);

}  // namespace clora
