// The gradients of a linear layer that is trained in full, y = x w^T + bias:
//   dw += dy^T x,  dbias += the sum of dy over rows
// by the products that adapters' gradients have (lora_gradient.hpp): sums are f32 in a fixed order,
// and matrix units round their operands to bf16. Private to ops/ and model/.
#pragma once

#include "clora/ops/lora_linear/lora_gradient.hpp"

namespace clora {

// dw [N, K] += dy [T, N]^T x [T, K]; dw f32, the others f32, bf16 or f16. Reads x once for every
// 4096 outputs, of which a range of dy is copied if there are more.
void record_weight_gradient(Batch& batch, const Tensor& dw, const Tensor& dy, const Tensor& x);

// dbias [N] += ones [T, 1]^T dy [T, N], to be recorded alone or with others; ones: T of them, f32.
LoraGradientProduct bias_gradient(const Tensor& dbias, const Tensor& dy, const Tensor& ones);

}  // namespace clora
