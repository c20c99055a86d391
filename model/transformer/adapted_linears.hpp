// Adapted linear layers of a recorded pass, forward and backward.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "model/transformer/recording.hpp"

namespace clora {

// Returns y [T, N] of linear layers that share the input x; their s are kept for the backward.
std::vector<Tensor> record_linears(Recording& recording, const Tensor& x,
                                   std::span<AdaptedLinear* const> linears);
// y = the layer's output + residual; residual may be empty.
void record_linear(Recording& recording, AdaptedLinear& linear, const Tensor& y, const Tensor& x,
                   const Tensor& residual);

// A layer and the gradient of its output.
using LinearGradient = std::pair<const AdaptedLinear*, Tensor>;
// dx = the gradient through layers with the same input; not computed if dx is empty. Returns the
// gradients that await x (record_linears_da()).
std::vector<PendingGradient> record_linears_dx(Recording& recording, const Tensor& dx,
                                               std::span<const LinearGradient> dys);
void record_linears_da(Recording& recording, const Tensor& x,
                       std::span<const PendingGradient> pending);

}  // namespace clora
