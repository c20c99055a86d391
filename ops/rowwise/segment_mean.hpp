// segment_mean: the mean of each segment of consecutive rows, such as the tokens of a document.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// Segments of rows, all on the device: segment b is rows begin[b] to end[b] - 1.
struct Segments {
  Tensor begin, end;  // [B] i32 each, within the rows
};

// Overwrites y [B, D] with the mean of each segment's rows of x [T, D]; zeros if it has none. f32.
void record_segment_mean(Batch& batch, const Tensor& y, const Tensor& x, const Segments& segments);

// Overwrites dx [T, D] = dy [B, D] of each row's segment, divided by its length. segment [T] i32:
// the row's segment, or -1, which gives zeros. Segments must not overlap. f32.
void record_segment_mean_backward(Batch& batch, const Tensor& dx, const Tensor& dy,
                                  const Segments& segments, const Tensor& segment);

Cost segment_mean_cost(const Shape& x, std::int64_t segments);

}  // namespace clora
