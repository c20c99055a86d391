// gelu (Hendrycks and Gimpel, 2016): y = x P(x), P the distribution function of the normal
// distribution, exactly or in the tanh form that the gate of swiglu.hpp has as well:
//   exact: P(x) = (1 + erf(x / sqrt(2))) / 2
//   tanh:  P(x) = (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

enum class GeluForm { exact, tanh };

// Overwrites y; all tensors have one shape, and each is f32, bf16 or f16. y may be x if their types
// are equal.
void record_gelu(Batch& batch, const Tensor& y, const Tensor& x, GeluForm form = GeluForm::exact);

// Overwrites dx = dy gelu'(x). An output may be an input of its type. y: empty, or the output for a
// recomputed forward y, from the same reads.
void record_gelu_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                          const Tensor& y = {}, GeluForm form = GeluForm::exact);

Cost gelu_cost(const Shape& x, DType x_type = DType::f32, DType y_type = DType::f32);
Cost gelu_backward_cost(const Shape& x, bool recomputes, DType x_type = DType::f32,
                        DType dy_type = DType::f32, DType dx_type = DType::f32);

}  // namespace clora
