// softmax over the last dimension: y_i = exp(x_i - max x) / sum_j exp(x_j - max x).
// Tensors are each f32, bf16 or f16; sums are f32.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Overwrites y [T, N]; y may be x if their types are equal.
void record_softmax(Batch& batch, const Tensor& y, const Tensor& x);

// Overwrites dx = y * (dy - sum_j dy_j y_j); dx may be dy if their types are equal. y is the
// forward's output.
void record_softmax_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& y);

Cost softmax_cost(const Shape& x, DType x_type = DType::f32, DType y_type = DType::f32);
Cost softmax_backward_cost(const Shape& y, DType y_type = DType::f32, DType dy_type = DType::f32,
                           DType dx_type = DType::f32);

}  // namespace clora
