// layer_norm (Ba, Kiros and Hinton, 2016), over the last dimension:
//   y = (x - mean(x)) / sqrt(var(x) + epsilon) * w + bias
// w, bias [D] f32 are frozen: they have no gradient. All others are each f32,
// bf16 or f16; sums are f32.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Overwrites y [T, D]; y may be x if their types are equal.
void record_layer_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                       const Tensor& bias, float epsilon);

// dx = residual + (dy/dx)^T dy; residual, of dx's type, may be empty or dx itself. dx may be dy if
// their types are equal.
void record_layer_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                const Tensor& w, const Tensor& residual, float epsilon);

Cost layer_norm_cost(const Shape& x, DType x_type = DType::f32, DType y_type = DType::f32);
Cost layer_norm_backward_cost(const Shape& x, bool has_residual, DType x_type = DType::f32,
                              DType dy_type = DType::f32, DType dx_type = DType::f32);

}  // namespace clora
