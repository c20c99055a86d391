// lora_embedding: a low-rank adapter of a table of embeddings, by the ids of tokens, and the
// gradient of the table itself (ops/lora_linear/lora_embedding.hpp).
//
//   lora_embedding_rows      s[t, r] = scale a[r, ids[t]], 0 if the id is outside of the table
//   lora_embedding_grouped_rows    the same for rows of several adapters, of stacks of a and bt:
//                            groups[t] = {adapter, unused, its rank or 0 for no adapter, bits of its scale}
//   lora_embedding_grouped_expand  y[t] += s[t] bt of the row's adapter
//   lora_embedding_links     links[t] = {the nearest earlier token with the same id, the nearest
//                            later one}, or -1
//   lora_embedding_gradient  d[r row_step + v id_step] += factor times the sum of ds[t, r] over the
//                            tokens t with ids[t] = v: of da [R, V], or of a table [V, R]
//
// Shapes  s, ds [T, R], a, da [R, V], ids [T], links [T, 2]; y [T, D], groups [T, 4], and in
//         grouped kernels a [adapters, R, V], bt [adapters, R, D]
// Types   ids and links i32, groups u32, all others f32. A negative id wraps to a large one
// Work    grouped_expand: a work-item owns a column of y, of every get_global_size(1)-th token.
//         links: one token. The others: a rank, of every get_global_size(1)-th token; in the
//         gradient that of the first token with an id sums over all of them, along the links, and
//         those of later ones do nothing
// Local   none
// Cost    links: up to T^2 comparisons of ids; rows and gradient: 12 T R bytes; grouped_expand: 2 T R D
//         flops and 8 T D bytes
// Numerics  the tokens of an id are added in ascending order, without atomics, so that the sums
//         have the same bits in each run
//! clc: build
//! clc: budget on gfx90a registers<=48 spills=0

__kernel void lora_embedding_rows(__global float* s, __global const int* ids,
                                  __global const float* a, uint T, uint R, uint V, float scale) {
  const uint r = get_global_id(0);
  if (r >= R) return;
  for (uint t = get_global_id(1); t < T; t += get_global_size(1)) {
    const uint id = (uint)ids[t];
    s[(ulong)t * R + r] = id < V ? scale * a[(ulong)r * V + id] : 0.0f;
  }
}

__kernel void lora_embedding_grouped_rows(__global float* s, __global const int* ids,
                                          __global const float* a, __global const uint4* groups,
                                          uint T, uint R, uint V, float factor) {
  const uint r = get_global_id(0);
  if (r >= R) return;
  for (uint t = get_global_id(1); t < T; t += get_global_size(1)) {
    const uint id = (uint)ids[t];
    const uint4 group = groups[t];
    const bool has = r < group.z && id < V;
    __global const float* row = a + (group.x * (ulong)R + r) * V;
    s[(ulong)t * R + r] = has ? as_float(group.w) * factor * row[id] : 0.0f;
  }
}

__kernel void lora_embedding_grouped_expand(__global float* y, __global const float* s,
                                            __global const float* bt,
                                            __global const uint4* groups, uint T, uint R, uint D) {
  const uint d = get_global_id(0);
  if (d >= D) return;
  for (uint t = get_global_id(1); t < T; t += get_global_size(1)) {
    const uint4 group = groups[t];
    if (group.z == 0) continue;
    __global const float* column = bt + group.x * (ulong)R * D + d;
    const uint rank = min(R, group.z);
    float sum = 0.0f;
    for (uint r = 0; r < rank; ++r) sum += s[(ulong)t * R + r] * column[(ulong)r * D];
    y[(ulong)t * D + d] += sum;
  }
}

__kernel void lora_embedding_links(__global int2* links, __global const int* ids, uint T) {
  const uint t = get_global_id(0);
  if (t >= T) return;
  const int id = ids[t];
  int earlier = (int)t - 1;
  while (earlier >= 0 && ids[earlier] != id) --earlier;
  uint later = t + 1;
  while (later < T && ids[later] != id) ++later;
  links[t] = (int2)(earlier, later < T ? (int)later : -1);
}

__kernel void lora_embedding_gradient(__global float* d, __global const float* ds,
                                      __global const int* ids, __global const int2* links, uint T,
                                      uint R, uint V, uint row_step, uint id_step, float factor) {
  const uint r = get_global_id(0);
  if (r >= R) return;
  for (uint t = get_global_id(1); t < T; t += get_global_size(1)) {
    const uint id = (uint)ids[t];
    if (links[t].x >= 0 || id >= V) continue;
    float sum = 0.0f;
    for (int u = (int)t; u >= 0; u = links[u].y) sum += ds[(ulong)u * R + r];
    const ulong at = (ulong)r * row_step + (ulong)id * id_step;
    d[at] = fma(factor, sum, d[at]);
  }
}
