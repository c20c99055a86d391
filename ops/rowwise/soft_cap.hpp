// soft_cap: x = c tanh(x / c), the soft cap of logits (Gemma 2). Attention and the loss apply
// theirs in their own kernels, forward and backward; this op is for logits that are read.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Overwrites x, f32 of any shape. REQUIRES: the cap is finite and above 0.
void record_soft_cap(Batch& batch, const Tensor& x, float cap);

Cost soft_cap_cost(const Shape& x);

}  // namespace clora
