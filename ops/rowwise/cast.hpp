// cast: y = x in another element type. Tensors are each f32, bf16 or f16.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Overwrites y, of x's shape: rounded to nearest even, beyond 65504 to infinity in f16; a NaN stays
// a NaN. REQUIRES: y does not overlap x.
void record_cast(Batch& batch, const Tensor& y, const Tensor& x);

Cost cast_cost(const Shape& x, DType x_type, DType y_type);

}  // namespace clora
