// softmax over the last dimension: y_i = exp(x_i - max x) / sum_j exp(x_j - max x).
// Tensors are f32 or bf16 each; sums are f32.
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// y [T, N] is overwritten; it may be x, where their types are one.
void record_softmax(Batch& batch, const Tensor& y, const Tensor& x);

// dx = y * (dy - sum_j dy_j y_j), overwritten; it may be dy, where their types are one. y is the
// forward's output.
void record_softmax_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& y);

Cost softmax_cost(const Shape& x, DType x_type = DType::f32, DType y_type = DType::f32);
Cost softmax_backward_cost(const Shape& y, DType y_type = DType::f32, DType dy_type = DType::f32,
                           DType dx_type = DType::f32);

}  // namespace clora
