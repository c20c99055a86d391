// rms_norm (Zhang and Sennrich, 2019), over the last dimension:
//   y = x / sqrt(mean(x^2) + epsilon) * w
// w [D] f32 is frozen: it has no gradient.
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// y [T, D] is overwritten; it may be x.
void record_rms_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                     float epsilon);

// dx = residual + (dy/dx)^T dy; residual may be empty (none) or dx itself (dx += ...).
// x is the forward's input. dx may be dy.
void record_rms_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Tensor& w, const Tensor& residual, float epsilon);

Cost rms_norm_cost(const Shape& x);
Cost rms_norm_backward_cost(const Shape& x, bool has_residual);

}  // namespace clora
