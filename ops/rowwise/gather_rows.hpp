// gather_rows: rows of a tensor by their numbers, and sums of two rows. x [N, ...] and y [A, ...]
// have the same type, f32, bf16 or f16, and rows of the same shape; source, first and second are
// [A] i32. A number outside of 0 to N - 1, such as -1, stands for a row of zeros.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// y[a] = x[source[a]], exactly. Overwrites y. REQUIRES: y does not overlap x.
void record_gather_rows(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& source);
// y[a] = x[first[a]] + x[second[a]], added in f32. Overwrites y. REQUIRES: y does not overlap x.
void record_gather_row_sums(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& first,
                            const Tensor& second);

// y: the shape of the result. reads: rows of x for each row of y.
Cost gather_rows_cost(const Shape& y, DType type, int reads = 1);

}  // namespace clora
