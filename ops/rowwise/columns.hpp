// columns: copies between a matrix and a range of another one's columns. Tensors are each f32, bf16
// or f16, and x and y of the same type.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// y [T, n] = x[:, begin : begin + n]. Overwrites y. REQUIRES: y does not overlap x.
void record_take_columns(Batch& batch, const Tensor& y, const Tensor& x, std::int64_t begin);
// y[:, begin : begin + n] = x [T, n]; the other columns of y keep their values. REQUIRES: y does
// not overlap x.
void record_put_columns(Batch& batch, const Tensor& y, std::int64_t begin, const Tensor& x);

// copied: the shape of the range.
Cost columns_cost(const Shape& copied, DType type);

}  // namespace clora
