// attention: causal grouped-query attention over packed rows or over a KV cache.
//
// Row t of the queries sees the key rows first[t] .. last[t], both inclusive. Packed documents have
// first = start of the document and last = t; a KV cache has first = 0 (or a window's begin) and
// last = the token's position. No row outside that range is read as a key.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
// Tensors are f32, or bf16 where that is said; kernels that know f32 alone are given copies.
// Online softmax (Milakov and Gimelshein, 2018): no [T, T] matrix is ever stored.
#pragma once

#include "runtime/batch.hpp"

namespace clora {

struct AttentionInputs {
  Tensor q;      // [T, H, E]; q, k and v are f32, or all bf16
  Tensor k;      // [Tk, G, E]; H a multiple of G
  Tensor v;      // [Tk, G, E]
  Tensor first;  // [T] i32
  Tensor last;   // [T] i32, first[t] <= last[t] < Tk
  float scale = 1;
  Tensor order = {};  // record_attention_order() of first and last; empty: made where it is needed
  // How many keys a row sees on average, for the launches' cost: only the device knows the ranges.
  // 0: as many as in one document of all rows, or in a full cache.
  double keys_per_row = 0;
};

// In which order kernels of some variants take their tiles: a temporary, made once for all calls
// with these rows and so many query heads. Empty where no kernel of the Context asks for it.
// REQUIRES: first and last as above.
Tensor record_attention_order(Batch& batch, const Tensor& first, const Tensor& last,
                              std::int64_t H);

// y [T, H, E] (f32 or bf16) and log_sum_exp [T, H] are overwritten (log_sum_exp may be empty where
// no backward follows).
void record_attention(Batch& batch, const Tensor& y, const Tensor& log_sum_exp,
                      const AttentionInputs& inputs);

struct AttentionGradients {
  Tensor dq;  // [T, H, E]; dq, dk and dv are f32, or all bf16
  Tensor dk;  // [Tk, G, E]
  Tensor dv;  // [Tk, G, E]
};

// All three are overwritten, the same bits every run. y and log_sum_exp are the forward's. dy and y
// are f32 or bf16.
// REQUIRES: Tk == T (packed rows), last[t] == t, first not decreasing.
void record_attention_backward(Batch& batch, const AttentionGradients& gradients, const Tensor& dy,
                               const Tensor& y, const Tensor& log_sum_exp,
                               const AttentionInputs& inputs);

// The same, but dk and dv may be left in parts: returned are the gradients as they are written,
// with dk and dv either those given, or temporaries [T, H, E], one part of each query head. A head
// of dk is the sum of its H / G parts then, in order, and so is dv; what was given for them is
// untouched.
[[nodiscard]] AttentionGradients record_attention_backward_in_parts(
    Batch& batch, const AttentionGradients& gradients, const Tensor& dy, const Tensor& y,
    const Tensor& log_sum_exp, const AttentionInputs& inputs);

// Rows of a step's keys or values into the cache: cache[positions[t]] = rows[t]. cache [S, G, E],
// rows [T, G, E], positions [T] i32; a position outside [0, S) is skipped.
void record_cache_append(Batch& batch, const Tensor& cache, const Tensor& rows,
                         const Tensor& positions);

// Whether products of T queries of width E round their operands to bf16.
bool attention_rounds_to_bf16(Variant variant, std::int64_t T, std::int64_t E);

// In how many shares a key head's keys are dealt out where T rows are few, on CPU devices.
std::int64_t attention_decode_splits(const Device& device, std::int64_t rows, std::int64_t G);

// pairs: number of (query, key) pairs that are not masked. Bytes: q read and y written once; the
// keys and values come on top, 8 G E bytes for each that is read.
Cost attention_cost(const Shape& q, double pairs);

}  // namespace clora
