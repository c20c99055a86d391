// The norm of a sub-layer in a recorded pass: rms_norm, or layer_norm if its weights have a bias;
// its parameters may be those of an adapter that trains it in full.
#pragma once

#include "clora/model/transformer/layer_weights.hpp"
#include "clora/ops/rowwise/layer_norm.hpp"
#include "clora/ops/rowwise/norm_gradient.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"

namespace clora {

// Weights are those of the model or, where the adapter trains the norm in full, of the adapter.
struct AdaptedNorm {
  NormWeights weights = {};
  NormGradients gradients = {};  // given if the pass trains it
  bool empty() const { return weights.empty(); }
  bool is_trained() const { return !gradients.empty(); }
};

// REQUIRES of all: there is a norm.
inline void record_norm(Batch& batch, const Tensor& y, const Tensor& x, const NormWeights& norm,
                        float epsilon) {
  if (norm.is_rms_norm()) return record_rms_norm(batch, y, x, norm.w, epsilon);
  record_layer_norm(batch, y, x, norm.w, norm.bias, epsilon);
}

// The gradients of the norm's parameters (+=), if the pass trains them.
inline void record_norm_parameters_backward(Batch& batch, const Tensor& dy, const Tensor& x,
                                            const AdaptedNorm& norm, float epsilon) {
  if (norm.is_trained()) record_norm_gradient(batch, norm.gradients, dy, x, epsilon);
}

// These, and dx = residual + the gradient of x, as in the norms' ops. dx may be dy.
inline void record_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                 const AdaptedNorm& norm, const Tensor& residual, float epsilon) {
  record_norm_parameters_backward(batch, dy, x, norm, epsilon);
  const NormWeights& weights = norm.weights;
  if (weights.is_rms_norm()) {
    return record_rms_norm_backward(batch, dx, dy, x, weights.w, residual, epsilon);
  }
  record_layer_norm_backward(batch, dx, dy, x, weights.w, residual, epsilon);
}

}  // namespace clora
