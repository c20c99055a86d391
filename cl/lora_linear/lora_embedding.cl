// lora_embedding: a low-rank adapter of a table of embeddings, by the ids of tokens, and the
// gradient of the table itself (ops/lora_linear/lora_embedding.hpp).
//
//   lora_embedding_rows      s[t, r] = scale a[r, ids[t]], 0 if the id is outside of the table
//   lora_embedding_links     links[t] = {the nearest earlier token with the same id, the nearest
//                            later one}, or -1
//   lora_embedding_gradient  d[r row_step + v id_step] += factor times the sum of ds[t, r] over the
//                            tokens t with ids[t] = v: of da [R, V], or of a table [V, R]
//
// Shapes  s, ds [T, R], a, da [R, V], ids [T], links [T, 2]
// Types   ids and links i32, all others f32. A negative id wraps to a large one
// Work    rows and gradient: one work-item per element of s, r along the fastest dimension; in
//         the gradient that of the first token with an id sums over all of them, along the links,
//         and those of later ones do nothing. links: one work-item per token
// Local   none
// Cost    links: up to T^2 comparisons of ids; rows and gradient: 12 T R bytes
// Numerics  the tokens of an id are added in ascending order, without atomics, so that the sums
//         have the same bits in each run
//! clc: build
//! clc: budget on gfx90a registers<=48 spills=0

__kernel void lora_embedding_rows(__global float* s, __global const int* ids,
                                  __global const float* a, ulong n, uint R, uint V, float scale) {
  for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
    const uint id = (uint)ids[i / R];
    s[i] = id < V ? scale * a[(i % R) * V + id] : 0.0f;
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
                                      __global const int* ids, __global const int2* links, ulong n,
                                      uint R, uint V, uint row_step, uint id_step, float factor) {
  for (ulong i = get_global_id(0); i < n; i += get_global_size(0)) {
    const uint t = (uint)(i / R);
    const uint id = (uint)ids[t];
    if (links[t].x >= 0 || id >= V) continue;
    const uint r = (uint)(i % R);
    float sum = 0.0f;
    for (int u = (int)t; u >= 0; u = links[u].y) sum += ds[(ulong)u * R + r];
    const ulong at = (ulong)r * row_step + (ulong)id * id_step;
    d[at] = fma(factor, sum, d[at]);
  }
}
