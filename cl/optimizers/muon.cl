// muon (Keller Jordan et al., 2024) for matrices of a flat buffer, in four launches.
//
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   muon_momentum  m = momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m
//   muon_gram      G = X X^T for each matrix X [S, L] of u, transposed if it has more rows than
//                  columns
//   muon_iterate   A = G / max(tr G, 1e-14), Q = I; five times
//                  P = a I + b A + c A^2;  Q = P Q;  A = P A P
//                  and q = Q / sqrt(max(tr G, 1e-14)): newton_schulz(X) = q X, since every P is a
//                  polynomial of the first A, with which it commutes
//   muon_update    p -= learning_rate * (weight_decay p + scale q X)
//
// Shapes  p, m, u, g [n], settings [8] (UpdateSettings), partials [groups of gradient_square_sums],
//         grad_norm [1]; matrices u32 [M, 8]: offset, S, L, transposed, offset of its [S, S] in the
//         buffers of factors, and as bits of floats scale and the multipliers of the learning rate
//         and the weight decay; grams, factors (q) and scratch hold an [S, S] for each matrix,
//         scratch two of them
// Types   f32, g, m and u aligned to 16 bytes
// Work    gradient_square_sums is in gradient_norm.clh. muon_momentum: quads of elements as there.
//         muon_gram: a group of TILE x TILE items owns a tile of G on or above the diagonal and
//         writes it twice. muon_iterate: a group of GROUP items owns a matrix. muon_update: an item owns a
//         vector of the short side
// Local   muon_gram 2 TILE (SLICE + 1) floats
// Cost    2 S^2 L flops in both muon_gram and muon_update, 34 S^3 in muon_iterate, by one group: a
//         rank of 256 takes long
// Numerics  arithmetic in f32, where torch.optim.Muon rounds to bf16. Rounding errors of A are
//         those of G, 1e-7 of the largest eigenvalue; five steps let singular values below 1e-3 of
//         the largest deviate by some percent of the 0.7 to 1.2 that the iteration itself allows.
//! clc: build GROUP=256 TILE=16
//! clc: build GROUP=64 TILE=8
#ifndef GROUP
#error "GROUP: work-items of a group, a power of two"
#endif
#ifndef TILE
#error "TILE: rows and columns of a tile of G; TILE^2 is at most the size of a group"
#endif
#define GROUPED 0

#include "optimizers/gradient_norm.clh"
#include "optimizers/update_settings.clh"

#define SLICE (4 * TILE)  // columns of X that are multiplied at once
#define STEPS 5

// A matrix of u with its short side first: element (i, k) is at offset + i * row + k * column.
typedef struct {
  uint offset, short_side, long_side, row, column, factor;
} Matrix;

INLINED Matrix matrix_at(__global const uint* words) {
  const uint short_side = words[1], long_side = words[2];
  const bool transposed = words[3] != 0;
  const Matrix x = {words[0], short_side, long_side, transposed ? 1 : long_side,
                    transposed ? short_side : 1, words[4]};
  return x;
}

INLINED float element(__global const float* u, Matrix x, uint i, uint k) {
  const size_t at = x.offset + (size_t)i * x.row + (size_t)k * x.column;
  return i < x.short_side && k < x.long_side ? u[at] : 0.0f;
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void muon_momentum(__global float* m, __global float* u, __global float* grad_norm,
                            __global const float* g, __global const float* settings,
                            __global const float* partials, int partial_count, float momentum,
                            long n) {
  __local float2 scratch[GROUP];
  const float norm = gradient_norm(partials, partial_count, scratch);
  if (get_global_id(0) == 0) grad_norm[0] = norm;
  const float clip = clip_factor(norm, settings);
  EACH_QUAD {
    const float4 fresh = ((__global const float4*)g)[i] * (clip * (1.0f - momentum));
    const float4 mean = ((__global float4*)m)[i] * momentum + fresh;
    ((__global float4*)m)[i] = mean;
    ((__global float4*)u)[i] = fresh + momentum * mean;
  }
  LAST_ELEMENT(i) {
    const float fresh = g[i] * (clip * (1.0f - momentum));
    m[i] = m[i] * momentum + fresh;
    u[i] = fresh + momentum * m[i];
  }
}

__attribute__((reqd_work_group_size(TILE, TILE, 1)))
__kernel void muon_gram(__global float* grams, __global const float* u,
                        __global const uint* matrices) {
  __local float left[TILE][SLICE + 1];
  __local float right[TILE][SLICE + 1];
  const Matrix x = matrix_at(matrices + 8 * get_group_id(2));
  const uint top = (uint)get_group_id(1) * TILE, side = (uint)get_group_id(0) * TILE;
  // The same for all items of the group, which reach all barriers or none.
  if (side < top || side >= x.short_side) return;
  const uint column = (uint)get_local_id(0), row = (uint)get_local_id(1);
  float sum = 0.0f;
  for (uint begin = 0; begin < x.long_side; begin += SLICE) {
    barrier(CLK_LOCAL_MEM_FENCE);  // the previous slice has been read
    for (uint k = column; k < SLICE; k += TILE) {
      left[row][k] = element(u, x, top + row, begin + k);
      right[row][k] = element(u, x, side + row, begin + k);
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the slice is written
    for (uint k = 0; k < SLICE; ++k) sum += left[row][k] * right[column][k];
  }
  const uint i = top + row, j = side + column;
  // On the diagonal both items of a pair have the same sum, but one of them writes it.
  if (i > j || j >= x.short_side) return;
  __global float* gram = grams + x.factor;
  gram[(size_t)i * x.short_side + j] = sum;
  gram[(size_t)j * x.short_side + i] = sum;
}

// product = x y of [side, side]. Every item of the group must call.
INLINED void multiply(__global float* product, __global const float* x, __global const float* y,
                      size_t side) {
  for (size_t e = get_local_id(0); e < side * side; e += GROUP) {
    const size_t i = e / side, j = e % side;
    float sum = 0.0f;
    for (size_t k = 0; k < side; ++k) sum += x[i * side + k] * y[k * side + j];
    product[e] = sum;
  }
  barrier(CLK_GLOBAL_MEM_FENCE);  // other items read what this one wrote
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void muon_iterate(__global float* factors, __global float* grams, __global float* scratch,
                           __global const uint* matrices) {
  const Matrix x = matrix_at(matrices + 8 * get_group_id(0));
  const size_t side = x.short_side, elements = side * side;
  __global float* a = grams + x.factor;
  __global float* q = factors + x.factor;
  __global float* p = scratch + 2 * (size_t)x.factor;
  __global float* t = p + elements;
  float trace = 0.0f;
  for (size_t i = 0; i < side; ++i) trace += a[i * (side + 1)];
  const float squared = 1.0f / fmax(trace, 1e-14f);
  barrier(CLK_GLOBAL_MEM_FENCE);  // every item has read the trace
  for (size_t e = get_local_id(0); e < elements; e += GROUP) {
    a[e] *= squared;
    q[e] = e % (side + 1) == 0 ? sqrt(squared) : 0.0f;
  }
  barrier(CLK_GLOBAL_MEM_FENCE);  // other items read what this one wrote
  for (int step = 0; step < STEPS; ++step) {
    multiply(t, a, a, side);
    for (size_t e = get_local_id(0); e < elements; e += GROUP) {
      const float identity = e % (side + 1) == 0 ? 3.4445f : 0.0f;
      p[e] = identity - 4.775f * a[e] + 2.0315f * t[e];
    }
    barrier(CLK_GLOBAL_MEM_FENCE);  // other items read what this one wrote
    multiply(t, p, q, side);
    for (size_t e = get_local_id(0); e < elements; e += GROUP) q[e] = t[e];
    barrier(CLK_GLOBAL_MEM_FENCE);  // every item has read t, which the next product overwrites
    if (step + 1 == STEPS) break;
    multiply(t, p, a, side);
    multiply(a, t, p, side);
  }
}

__attribute__((reqd_work_group_size(GROUP, 1, 1)))
__kernel void muon_update(__global float* p, __global const float* u, __global const float* factors,
                          __global const float* settings, __global const uint* matrices) {
  __global const uint* words = matrices + 8 * get_group_id(1);
  const Matrix x = matrix_at(words);
  const uint k = (uint)get_global_id(0);
  if (k >= x.long_side) return;
  const float rate = settings[LEARNING_RATE] * as_float(words[6]);
  const float decay = settings[WEIGHT_DECAY] * as_float(words[7]);
  __global const float* q = factors + x.factor;
  for (uint i = 0; i < x.short_side; ++i) {
    float sum = 0.0f;
    for (uint j = 0; j < x.short_side; ++j) {
      sum += q[(size_t)i * x.short_side + j] * element(u, x, j, k);
    }
    const size_t at = x.offset + (size_t)i * x.row + (size_t)k * x.column;
    p[at] -= rate * (as_float(words[5]) * sum + decay * p[at]);
  }
}
