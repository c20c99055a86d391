// add: y = x + factor * t. Tensors are each f32, bf16 or f16; the sum is f32.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Overwrites y, of t's shape; x has that shape too, or is empty: y = factor * t. y may be x or t if
// their types are equal.
void record_add(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& t, float factor = 1);

}  // namespace clora
