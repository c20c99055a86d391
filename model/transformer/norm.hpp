// The norm of a sub-layer in a recorded pass: rms_norm, or layer_norm if its weights have a bias.
#pragma once

#include "clora/model/transformer/layer_weights.hpp"
#include "clora/ops/rowwise/layer_norm.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"

namespace clora {

// REQUIRES of both: there is a norm.
inline void record_norm(Batch& batch, const Tensor& y, const Tensor& x, const NormWeights& norm,
                        float epsilon) {
  if (norm.is_rms_norm()) return record_rms_norm(batch, y, x, norm.w, epsilon);
  record_layer_norm(batch, y, x, norm.w, norm.bias, epsilon);
}

inline void record_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                 const NormWeights& norm, const Tensor& residual, float epsilon) {
  if (norm.is_rms_norm()) {
    return record_rms_norm_backward(batch, dx, dy, x, norm.w, residual, epsilon);
  }
  record_layer_norm_backward(batch, dx, dy, x, norm.w, residual, epsilon);
}

}  // namespace clora
