// swiglu (Shazeer, 2020): y = silu(gate) * up, silu(g) = g / (1 + exp(-g)).
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// All [T, F]. y is overwritten; it may be gate or up.
void record_swiglu(Batch& batch, const Tensor& y, const Tensor& gate, const Tensor& up);

// dgate = dy * up * silu'(gate), dup = dy * silu(gate), overwritten. dgate may be gate, dup may be
// up.
void record_swiglu_backward(Batch& batch, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                            const Tensor& gate, const Tensor& up);

Cost swiglu_cost(const Shape& y);
Cost swiglu_backward_cost(const Shape& dy);

}  // namespace clora
