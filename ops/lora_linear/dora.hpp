// dora: weight-decomposed adapters (DoRA: Liu et al., 2024) of frozen linear layers. A layer's
// output is
//
//   y = g (w x + scale b a x) + bias        g [N] = m / |w + scale b a|, norms by rows
//
// with magnitudes m [N] that are trained next to a and b; the forward is record_lora_linear() with
// LoraWeights::column_scale = g. As in PEFT, the norms are constants in the backward, and dropout
// drops the input of both products:
//
//   y = w x + (g - 1) w drop(x) + g scale b a drop(x) + bias
//     = w (x - drop(x)) + bias + f,     f = g (w drop(x) + scale b a drop(x))
//
// The backward scales dy once, dy' = g dy, and then is that of the adapter:
//
//   dm_n += sum_t dy_tn f_tn / m_n        db += scale * dy'^T s       ds = scale * dy' b
//   da += ds^T drop(x)                    dx (+)= dy' w + ds a, or with dropout
//                                         dx (+)= dy w + drop'((dy' - dy) w + ds a)
//
// f is y - bias without dropout. A magnitude of exactly zero has no gradient, since f is then zero;
// a row of w + scale b a whose norm is zero has the factor zero, where PEFT divides by zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/rowwise/swiglu.hpp"

namespace clora {

class DeferredMagnitudes;

// squared [N] f32 = the sums of squares of the rows of w, which is frozen: needed once. Overwrites.
void record_weight_norms(Batch& batch, const Tensor& squared, const Weight& w);

// g of all layers of an adapter from their current a, b and m, without materialising w + scale b a:
//   |w_n + scale b_n a|^2 = |w_n|^2 + 2 scale b_n (a w_n) + scale^2 b_n (a a^T) b_n^T
// On NVIDIA's GPUs all products with plain bf16 weights are one launch, which adds 2^-16 |scale b_n
// a| / |w_n| at most; else each w has a product of R rows, which where it rounds to bf16 (R above
// the rows of skinny products) adds 2^-8 of that. Two more launches compute the rest of all layers.
// Sums are f32; their relative error is about 2^-22 (|w_n| + |scale b_n a|)^2 / |w_n + scale b_n
// a|^2.
struct DoraLayer {
  Weight w;  // [N, K]
  std::int64_t rank = 0;
  float scale = 1;
  // Where a [R, K], bt [R, N] and m [N] begin in the parameters, and the N columns in squared and
  // column_scale: in elements, each where a kernel argument may begin.
  std::size_t a = 0, bt = 0, magnitude = 0, columns = 0;
};
struct DoraLayers {
  Tensor parameters;    // [n], of a ParameterSet
  Tensor squared;       // [c]: of record_weight_norms()
  Tensor column_scale;  // [c]
  std::vector<DoraLayer> layers = {};
};
// Overwrites the columns of the layers in column_scale. Errors: unsupported for offsets from 2^32
// on.
void record_column_scales(Batch& batch, const DoraLayers& all);

// What the gradient of the magnitudes reads. All [N] but f.
struct DoraOutput {
  Tensor f;     // [T, N], f32, bf16 or f16; with `bias` added if that is given
  Tensor bias;  // or empty
  Tensor column_scale;
  Tensor magnitude;
};
// scaled [T, N] = column_scale * dy, overwritten; dmagnitude [N] += sum_t dy (f - bias) /
// magnitude, by the flush of `deferred` if it is given. dy and scaled are each f32, bf16 or f16;
// scaled may be dy if their types are equal.
void record_dora_backward(Batch& batch, const Tensor& scaled, const Tensor& dmagnitude,
                          const Tensor& dy, const DoraOutput& output,
                          DeferredMagnitudes* deferred = nullptr);
Cost dora_backward_cost(const Shape& dy, DType dy_type, DType f_type, DType scaled_type);

// The factors of a layer without a bias, and its magnitudes with their gradients; all [N].
struct DoraFactors {
  Tensor column_scale;
  Tensor magnitude;
  Tensor dmagnitude;
};
// The same for the layers of gate and up, in the backward of swiglu (ops/rowwise/swiglu.hpp), from
// one read of gate and up: overwrites scaled_gate = g_gate dgate, scaled_up = g_up dup and the
// recomputed y = swiglu(gate, up), and adds to the gradients of both layers' magnitudes. All
// matrices are [T, N]; gate and up have one type, the scaled ones another one; y may be dy if their
// types are equal.
struct DoraSwigluBackward {
  Tensor scaled_gate, scaled_up, y;
  Tensor dy, gate, up;
  DoraFactors of_gate, of_up;
  GateFunction function = GateFunction::silu;
};
void record_dora_swiglu_backward(Batch& batch, const DoraSwigluBackward& backward,
                                 DeferredMagnitudes* deferred = nullptr);

// The forward with dropout. Overwrites y and f [T, N], of one type, and s [T, R]; residual may be
// empty. REQUIRES: lora.column_scale and a dropout.
struct DoraDropoutOutput {
  Tensor y, f, s;
  LinearWeights weights;
  LoraWeights lora;
  Tensor residual = {};
};
void record_dora_dropout(Batch& batch, const Tensor& x, const DoraDropoutOutput& output);

// Its backward but da, which the result has. branch: as of the plain adapter, with dy' in place of
// dy. dx (+)= as above, or is not computed if it is empty; dbt accumulates.
PendingGradient record_dora_dropout_dx(Batch& batch, const Tensor& dx, const Tensor& dy,
                                       const LoraBranch& branch, Accumulate accumulate_dx,
                                       DeferredGradients& deferred);

}  // namespace clora
