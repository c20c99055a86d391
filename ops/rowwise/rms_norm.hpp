// rms_norm (Zhang and Sennrich, 2019), over the last dimension:
//   y = x / sqrt(mean(x^2) + epsilon) * w
// w [D] f32 is frozen: it has no gradient. All others are each f32,
// bf16 or f16; sums are f32.
#pragma once

#include <optional>

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// What the result is added to, as residual stream: y = x0 + factor * rms_norm(x).
struct RmsNormAddend {
  Tensor x0 = {};  // [T, D]; empty: none
  float factor = 1;
};

// Overwrites y [T, D]; y may be x, or the addend, if their types are equal. REQUIRES: a factor of 1
// without an addend.
void record_rms_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w, float epsilon,
                     const RmsNormAddend& addend = {});

// Optional outputs of the backward, each empty or overwritten; they must not alias other tensors.
struct RmsNormAlso {
  Tensor dx_bf16 = {};  // dx a second time, in bf16
  Tensor y = {};        // the recomputed y of the forward, any of these types
};

// dx = residual + (dy/dx)^T dy; residual, of dx's type, may be empty (none) or dx itself
// (dx += ...). x is the forward's input. dx may be dy if their types are equal.
void record_rms_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Tensor& w, const Tensor& residual, float epsilon,
                              const RmsNormAlso& also = {});

Cost rms_norm_cost(const Shape& x, DType x_type = DType::f32, DType y_type = DType::f32,
                   const std::optional<DType>& addend_type = {});

struct RmsNormBackwardTypes {
  DType x = DType::f32, dy = DType::f32, dx = DType::f32;
  bool rounds = false;          // dx is also written as bf16
  std::optional<DType> y = {};  // the type of y, if it is written
};
Cost rms_norm_backward_cost(const Shape& x, bool has_residual,
                            const RmsNormBackwardTypes& types = {});

}  // namespace clora
