// lora_linear: a frozen linear layer with a low-rank adapter (Hu et al., 2021).
//
//   s  = drop(x) a^T                     [T, R]   saved for the backward
//   y  = x w^T + bias + scale * s b^T    (+ residual)     or, for serving, with the adapter of each
//                                                         row, or with DoRA's factors of columns
//   db += scale * dy^T s                 ds = scale * dy b
//   da += ds^T drop(x)                   dx (+)= dy w + drop'(ds a)
//
// b [N, R] is stored transposed, bt [R, N]: then the low-rank terms of the forward and the backward
// have the same form, and so do the two gradients. Without dropout the adapter shares the
// accumulators of the base product, which computes s, or ds, in the same launch if its kernel can
// (ops/gemm/gemm.hpp, LowRankTerm). x, y, dx, dy and s are each f32, bf16 or f16, a residual is of
// y's type; the adapter's weights and gradients are f32. On Hopper's tensor cores one read of dy
// yields db and ds.
#pragma once

#include <span>
#include <vector>

#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/lora_linear/lora_gradient.hpp"

namespace clora {

struct LinearWeights {
  Weight w;     // [N, K], any storage type
  Tensor bias;  // [N] f32, or empty
};

// Dropout of the adapter's input; the mask is a function of (seed, step, site, element).
struct LoraDropout {
  float probability = 0;   // 0: none
  Tensor seed_and_step;    // u32 [2] on the device; required if probability > 0
  std::uint32_t site = 0;  // unique for each layer of the model
};

struct LoraWeights {
  Tensor a;   // [R, K] f32; empty: no adapter, the op is the plain linear layer
  Tensor bt;  // [R, N] f32
  float scale = 1;
  LoraDropout dropout = {};
  // bf16 copies of a and bt, kept up to date by the caller, for Contexts where
  // reads_bf16_adapter(); or empty: products that round cast them each time.
  Tensor a_bf16 = {};
  Tensor bt_bf16 = {};
  // Forward only, and without dropout. Rows of several adapters in one layer: a [adapters, R, K],
  // bt [adapters, R, N] and their bf16 copies are stacks, and the table of row_group_table()
  // selects the adapter of each row, or none (LowRankTerm::row_groups).
  Tensor row_groups = {};
  // Forward only, and without dropout: [N] f32, DoRA's factor of each column (Epilogue), or empty.
  Tensor column_scale = {};
  bool empty() const noexcept { return a.empty(); }
  std::int64_t rank() const { return a.shape()[row_groups.empty() ? 0 : 1]; }
};

// Accumulated (+=).
struct LoraGradients {
  Tensor da;   // [R, K]
  Tensor dbt;  // [R, N]
};

// Overwrites y [T, N] and s [T, R]; s may be empty if lora is. residual may be y itself or empty.
void record_lora_linear(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& x,
                        const LinearWeights& weights, const LoraWeights& lora,
                        const Tensor& residual = {});

// Overwrites dx [T, K] or accumulates into it; if dx is empty, it is not computed. Gradients
// accumulate. x and s are those of the forward.
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
  Tensor residual = {};
};
// Each as by record_lora_linear(); in one product if a kernel can. Overwrites an x that is
// computed. REQUIRES: x is given if an adapter has dropout.
void record_lora_linears(Batch& batch, const ProductInput& x, std::span<const LoraOutput> outputs);

struct LoraBranch {
  LoraGradients gradients;
  Tensor dy;
  Tensor s;
  LinearWeights weights;
  LoraWeights lora;
};
// Their backward: dx is the sum over the layers, or dx += it; in few launches if kernels can.
void record_lora_linears_backward(Batch& batch, const Tensor& dx, const Tensor& x,
                                  std::span<const LoraBranch> branches, Accumulate accumulate_dx);

// The same in two steps, for callers that compute x only after dx: first dx and all dbt, which
// returns the pending gradients; then da, which `deferred` may delay.
struct PendingGradient {
  Tensor da;  // [R, K] += ds^T drop(x)
  Tensor ds;  // [T, R]
  LoraDropout dropout;
  // Of a weight that is trained in full: da is dw [N, K], and ds is dy [T, N], which may change
  // before a flush, so that it is recorded at once.
  bool is_weight = false;
};
std::vector<PendingGradient> record_lora_linears_dx(Batch& batch, const Tensor& dx,
                                                    std::span<const LoraBranch> branches,
                                                    Accumulate accumulate_dx,
                                                    DeferredGradients& deferred);
void record_lora_linears_da(Batch& batch, const Tensor& x, std::span<const PendingGradient> pending,
                            DeferredGradients& deferred);

// The unfused reference, for tests and as the baseline of benches.
void record_lora_linear_unfused(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& x,
                                const LinearWeights& weights, const LoraWeights& lora,
                                const Tensor& residual = {});

// out [T, R] = scale * x [T, K] a [R, K]^T: the shrink. Overwrites out.
void record_lora_shrink(Batch& batch, const Tensor& out, const Tensor& x, const Tensor& a,
                        float scale);
// out [R, K] += scale * s [T, R]^T x [T, K]: the adapter gradients; s and x are each f32,
// bf16 or f16. Deterministic.
void record_lora_gradient(Batch& batch, const Tensor& out, const Tensor& s, const Tensor& x,
                          float scale);

// Whether the products of a Context read LoraWeights::a_bf16 and bt_bf16.
bool reads_bf16_adapter(const Context& context);

Cost lora_linear_cost(std::int64_t rows, const LinearWeights& weights, std::int64_t rank);

}  // namespace clora
