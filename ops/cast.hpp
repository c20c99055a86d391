// cast: a tensor in another float type. f32 to bf16 rounds to nearest, ties to even, and keeps
// infinities and NaN; bf16 to f32 is exact.
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// y = x, one f32 and the other bf16, of one shape. Overwrites y. REQUIRES: y does not alias x.
void record_cast(Batch& batch, const Tensor& y, const Tensor& x);

Cost cast_cost(const Shape& shape);

}  // namespace clora
