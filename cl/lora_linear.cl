// lora_linear: the gradients of an adapter's matrices on any device (the other parts of the layer
// are products: gemm.cl).
//
//   out [R, K] += scale * s [T, R]^T x [T, K]
// Shapes  as above
// Types   f32
// Work    a work-group of SIDE x SIDE items owns SIDE rows and TILE columns of out; an item one row
//         and every SIDE-th column. It walks over all T rows, STEPS at a time.
// Local   STEPS rows of s [STEPS][SIDE] and of x [STEPS][TILE]
// Tiles      T rows: s^T |##| x  |########|   ->  out tile [SIDE][TILE]
// Cost    2 T R K flops; x is read R / SIDE times
// Numerics  f32 fma over t in order: the same bits every run
#if !defined(TILE) || !defined(STEPS) || !defined(SIDE)
#error "TILE, STEPS and SIDE are required"
#endif
#define PER_ITEM (TILE / SIDE)

__attribute__((reqd_work_group_size(SIDE, SIDE, 1))) __kernel void lora_gradient(
    __global float* out, __global const float* s, __global const float* x, uint T, uint R, uint K,
    float scale) {
  __local float s_tile[STEPS][SIDE];
  __local float x_tile[STEPS][TILE];
  const uint column = get_local_id(0), row = get_local_id(1);
  const uint item = row * SIDE + column;
  const uint r0 = get_group_id(1) * SIDE, k0 = get_group_id(0) * TILE;
  float sums[PER_ITEM];
  for (uint j = 0; j < PER_ITEM; ++j) sums[j] = 0.0f;
  for (uint begin = 0; begin < T; begin += STEPS) {
    for (uint e = item; e < STEPS * SIDE; e += SIDE * SIDE) {
      const uint t = begin + e / SIDE, r = r0 + e % SIDE;
      s_tile[e / SIDE][e % SIDE] = t < T && r < R ? s[(size_t)t * R + r] : 0.0f;
    }
    for (uint e = item; e < STEPS * TILE; e += SIDE * SIDE) {
      const uint t = begin + e / TILE, k = k0 + e % TILE;
      x_tile[e / TILE][e % TILE] = t < T && k < K ? x[(size_t)t * K + k] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // both tiles are whole
    for (uint t = 0; t < STEPS; ++t) {
      for (uint j = 0; j < PER_ITEM; ++j) {
        sums[j] = fma(s_tile[t][row], x_tile[t][column + j * SIDE], sums[j]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // all have read before the next rows overwrite
  }
  for (uint j = 0; j < PER_ITEM; ++j) {
    const uint r = r0 + row, k = k0 + column + j * SIDE;
    if (r < R && k < K) out[(size_t)r * K + k] += scale * sums[j];
  }
}
