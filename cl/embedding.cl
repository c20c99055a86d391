// embedding: y[t] = table[ids[t]], zeros where the id is outside of the table.
//
// Shapes  y [T, D], ids [T], table [V, D]
// Types   y f32, ids i32, table in any storage type (quant.clh)
// Work    embedding: one work-item an element, D along dimension 0.
//         embedding_rows (CPU devices): a work-group of one item owns rows_per_group rows of y.
// Local   none
// Cost    reads T rows of the table, writes 4 T D bytes
// Numerics  as the storage type
#include "quant_block32.clh"

__kernel void embedding(__global float* y, __global const int* ids, __global const uchar* table,
                        uint T, uint D, uint V) {
  const uint d = get_global_id(0), t = get_global_id(1);
  if (d >= D || t >= T) return;
  const uint id = (uint)ids[t];  // a negative id becomes a large one
  y[(size_t)t * D + d] = id < V ? weight_at(weight_row(table, id, D), d) : 0.0f;
}

__attribute__((reqd_work_group_size(1, 1, 1))) __kernel void embedding_rows(
    __global float* y, __global const int* ids, __global const uchar* table, uint T, uint D,
    uint V, uint rows_per_group) {
  const uint begin = get_group_id(0) * rows_per_group;
  const uint end = min(T, begin + rows_per_group);
  for (uint t = begin; t < end; ++t) {
    const uint id = (uint)ids[t];
    __global const uchar* row = weight_row(table, id < V ? id : 0, D);
    __global float* out = y + (size_t)t * D;
    uint d = 0;
    for (; d + 32 <= D && id < V; d += 32) {
      float16 lo, hi;
      weight_block32(row, d, &lo, &hi);
      vstore16(lo, 0, out + d);
      vstore16(hi, 1, out + d);
    }
    for (; d < D; ++d) out[d] = id < V ? weight_at(row, d) : 0.0f;
  }
}
