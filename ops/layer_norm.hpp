// layer_norm (Ba, Kiros and Hinton, 2016), over the last dimension:
//   y = (x - mean(x)) / sqrt(var(x) + epsilon) * w + bias
// w, bias [D] f32 are frozen: they have no gradient.
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// y [T, D] is overwritten; it may be x.
void record_layer_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                       const Tensor& bias, float epsilon);

// dx = residual + (dy/dx)^T dy; residual may be empty or dx itself. dx may be dy.
void record_layer_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                const Tensor& w, const Tensor& residual, float epsilon);

Cost layer_norm_cost(const Shape& x);
Cost layer_norm_backward_cost(const Shape& x, bool has_residual);

}  // namespace clora
