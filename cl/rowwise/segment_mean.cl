// segment_mean: y[b] = the mean of rows begin[b] to end[b] - 1 of x, zeros if there are none.
// backward: dx[t] = dy[b] / (end[b] - begin[b]), b = segment[t]; zeros if b is -1.
//
// Shapes  x, dx [T, D]; y, dy [B, D]; begin, end [B]; segment [T]
// Types   f32; begin, end, segment i32
// Work    an item owns one column of a segment; backward: of a row. Rows of a segment are summed in
//         order
// Local   none
// Cost    reads the rows of segments once and writes y; backward reads dy for each row, writes dx
// Numerics  sums in f32, the same bits every run
//! clc: build
//! clc: budget on gfx90a registers<=32 spills=0

__kernel void segment_mean(__global float* y, __global const float* x, __global const int* begin,
                           __global const int* end, uint D) {
  const uint d = (uint)get_global_id(0), b = (uint)get_global_id(1);
  if (d >= D) return;
  float sum = 0.0f;
  for (int t = begin[b]; t < end[b]; ++t) sum += x[(size_t)t * D + d];
  y[(size_t)b * D + d] = sum / (float)max(end[b] - begin[b], 1);
}

__kernel void segment_mean_backward(__global float* dx, __global const float* dy,
                                    __global const int* begin, __global const int* end,
                                    __global const int* segment, uint T, uint D) {
  const uint d = (uint)get_global_id(0);
  if (d >= D) return;
  for (uint t = (uint)get_global_id(1); t < T; t += (uint)get_global_size(1)) {
    const int b = segment[t];
    float value = 0.0f;
    if (b >= 0) value = dy[(size_t)b * D + d] / (float)(end[b] - begin[b]);
    dx[(size_t)t * D + d] = value;
  }
}
