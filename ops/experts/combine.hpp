// combine: rows from the outputs of their experts, and the backward (ops/experts/router.hpp).
//
//   y [T, D] = residual + the sum over k of weights[t, k] * x[slot of entry (t, k), :]
//
// x and y are each f32, bf16 or f16.
#pragma once

#include "clora/ops/experts/router.hpp"

namespace clora {

// Overwrites y. residual [T, D] of y's type, or empty; may be y. weights [T, K] f32, or empty: 1.
// x [S, D].
void record_combine(Batch& batch, const Tensor& y, const Tensor& x, const ExpertPlan& plan,
                    const Tensor& weights, const Tensor& residual);

// dx [S, D], of x's type, = the weight of the slot's entry * dy of its row, zeros for unused slots;
// dweights [T, K] f32. Both are overwritten.
struct CombineGradients {
  Tensor dx;
  Tensor dweights;
};
void record_combine_backward(Batch& batch, const CombineGradients& gradients, const Tensor& dy,
                             const Tensor& x, const ExpertPlan& plan, const Tensor& weights);

Cost combine_cost(const ExpertPlan& plan, const Tensor& y, const Tensor& x);

}  // namespace clora
