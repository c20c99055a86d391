// softmax over the last dimension: y_i = exp(x_i - max x) / sum_j exp(x_j - max x).
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// y [T, N] is overwritten; it may be x.
void record_softmax(Batch& batch, const Tensor& y, const Tensor& x);

// dx = y * (dy - sum_j dy_j y_j), overwritten; it may be dy. y is the forward's output.
void record_softmax_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& y);

Cost softmax_cost(const Shape& x);
Cost softmax_backward_cost(const Shape& y);

}  // namespace clora
