// norm_gradient: the gradients of the weight and the bias of a norm over the last dimension, as a
// norm that is trained needs them next to the dx of rms_norm and layer_norm:
//   dw += factor sum_t dy[t] n[t],  dbias += factor sum_t dy[t]
// where n [T, D] is the normalised x, before the weight: x / sqrt(mean(x^2) + epsilon) of rms_norm,
// or (x - mean(x)) / sqrt(var(x) + epsilon) of layer_norm. Sums are f32, in a fixed order.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Gradients [D] f32 of a norm's parameters.
struct NormGradients {
  Tensor dw = {};     // empty: not computed, if there is a dbias
  Tensor dbias = {};  // of layer_norm; empty: rms_norm, or not computed
  float factor = 1;   // d(weight of the norm) / d(parameter)
  bool empty() const { return dw.empty() && dbias.empty(); }
};

// Adds to dw and to dbias, of which at least one is given (+=). dy, x [T, D] are each f32, bf16 or
// f16, of any rank: all dimensions but the last are rows. REQUIRES: dw and dbias overlap nothing
// else.
void record_norm_gradient(Batch& batch, const NormGradients& d, const Tensor& dy, const Tensor& x,
                          float epsilon);

Cost norm_gradient_cost(const Shape& x, bool has_bias, DType x_type = DType::f32,
                        DType dy_type = DType::f32);

}  // namespace clora
