// attention: grouped-query attention over packed rows or over a KV cache.
//
// Query row t attends to the key rows first[t] .. last[t], both inclusive. Packed documents have
// first = start of the document and last = t, or last = its end for encoders; a KV cache has first
// = 0 (or the start of a window) and last = the token's position. No row outside that range is read
// as a key.
//   y[t, h] = sum_k p_k v[k, g],  p = softmax_k(scale * q[t, h] . k[k, g]),  g = h / (H / G)
// With a soft cap c, scores are c tanh(scale * q . k / c) (Gemma 2).
// Tensors are f32, and activations also bf16 or f16, as stated. Keys and values may have another
// type than queries, as in a KV cache of fewer bytes. The kernels for CPUs work on f32 copies of
// queries and results of these types, but read keys and values as they are stored, a block at a
// time; matrix units round the operands of products to bf16, of f16 tensors too. Online softmax
// (Milakov and Gimelshein, 2018): no [T, T] matrix is ever stored.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// A KV cache in pages of `positions` rows, a power of two: key n of query row t is in page
// tables[table_of[t]][n / positions], whose rows begin at that number times `positions`. Sequences
// may have pages in common.
struct KeyPages {
  Tensor tables;    // [sequences, pages of one] i32; entries below the cache's number of pages
  Tensor table_of;  // [T] i32
  std::int64_t positions = 0;
  bool empty() const { return tables.empty(); }
};

struct AttentionInputs {
  Tensor q;      // [T, H, E]: f32, bf16 or f16
  Tensor k;      // [Tk, G, E]; H a multiple of G. k and v: both f32, bf16, f16 or, in pages, q8_0
  Tensor v;      // [Tk, G, E]
  Tensor first;  // [T] i32
  Tensor last;   // [T] i32, first[t] <= last[t] < Tk
  float scale = 1;
  Tensor order = {};  // record_attention_order() of first and last; empty: computed if needed
  // The mean number of keys per row, for the cost of the launches: the ranges are on the device.
  // 0: as many as in one document of all rows, or in a full cache.
  double keys_per_row = 0;
  float soft_cap = 0;  // of scores; 0: none
  // For the backward: whether last[t] == t. If not, the ranges are symmetric: row t attends to key
  // k if and only if row k attends to key t, as in packed documents of an encoder.
  bool causal = true;
  // [H, 2P - 1] f32: bias[h, P - 1 + k - t] is added to the scaled score of row t and key k; P is
  // above each distance of a row to its keys. Empty: none. It has no gradient. REQUIRES: no soft
  // cap.
  Tensor bias = {};
  // k and v are a cache in pages, and first and last count the keys of a row's sequence. Empty:
  // they are rows of k and v. REQUIRES: no bias; last[t] < pages of a sequence * positions.
  KeyPages pages = {};
};

// The order in which some kernels process their tiles: a temporary, shared by all calls with these
// rows and H query heads of E elements. Empty if no kernel for them needs it. REQUIRES: first and
// last as above.
Tensor record_attention_order(Batch& batch, const Tensor& first, const Tensor& last, std::int64_t H,
                              std::int64_t E);

// Overwrites y [T, H, E] (f32, bf16 or f16) and log_sum_exp [T, H]; log_sum_exp may be empty if no
// backward follows.
void record_attention(Batch& batch, const Tensor& y, const Tensor& log_sum_exp,
                      const AttentionInputs& inputs);

struct AttentionGradients {
  Tensor dq;  // [T, H, E]; dq, dk and dv are all f32, all bf16 or all f16
  Tensor dk;  // [Tk, G, E]
  Tensor dv;  // [Tk, G, E]
};

// Overwrites all three; deterministic. y and log_sum_exp are the outputs of the forward. dy and y
// are each f32, bf16 or f16.
// REQUIRES: Tk == T (packed rows); first and last are non-decreasing and as `causal` requires; k
// and v have q's type.
void record_attention_backward(Batch& batch, const AttentionGradients& gradients, const Tensor& dy,
                               const Tensor& y, const Tensor& log_sum_exp,
                               const AttentionInputs& inputs);

// The same, but may leave dk and dv as one part per query head. Returns the gradients as written:
// dk and dv are either the given tensors, or temporaries [T, H, E] of parts. In the latter case a
// head of dk or dv is the sum of its H / G parts, in order, and the given dk and dv are untouched.
[[nodiscard]] AttentionGradients record_attention_backward_in_parts(
    Batch& batch, const AttentionGradients& gradients, const Tensor& dy, const Tensor& y,
    const Tensor& log_sum_exp, const AttentionInputs& inputs);

// Writes the keys or values of a step into the cache: cache[positions[t]] = rows[t]. cache
// [S, G, E] and rows [T, G, E] are each f32, bf16 or f16, or q8_0 the cache, for E a multiple of
// 32; positions [T] i32; a position outside [0, S) is skipped.
void record_cache_append(Batch& batch, const Tensor& cache, const Tensor& rows,
                         const Tensor& positions);

// Whether products of T queries of head dim E round their operands to bf16.
bool attention_rounds_to_bf16(const Capabilities& capabilities, std::int64_t T, std::int64_t E);

// The number of splits of the keys of a key head when T is small, on CPU devices.
std::int64_t attention_decode_splits(const Device& device, std::int64_t rows, std::int64_t G);

// pairs: number of (query, key) pairs that are not masked. Bytes: q read and y written once; the
// reads of keys and values are not included, 2 G E elements per key.
Cost attention_cost(const Shape& q, double pairs);

}  // namespace clora
