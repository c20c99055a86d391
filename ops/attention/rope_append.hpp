// rope_append: the rotation of a step's queries and keys (ops/rowwise/rope.hpp), and the append of
// its keys and values to a KV cache (record_cache_append()), in one launch. The results have the
// bits of those three ops.
#pragma once

#include "clora/ops/rowwise/rope.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

struct RopeAppend {
  Tensor queries;                 // [T, H, E], rotated in place
  Tensor keys;                    // [T, G, E], rotated in place
  Tensor values;                  // [T, G, E]
  Tensor key_cache, value_cache;  // [S, G, E], of one type; rows that get none keep their values
  Tensor positions;               // [T] i32, each below P, or below 0: padding
  Tensor slots;                   // [T] i32: rows of the caches
  Tensor table;                   // [P, R, 2] f32: cosine and sine of R pairs, at most E/2
  Tensor key_table = {};          // of keys, if it is not `table`; of the same shape
};

// Rotates queries and keys; key_cache[slots[t]] = keys[t], rotated, and value_cache[slots[t]] =
// values[t]. A slot outside [0, S) is skipped; slots in [0, S) differ. Queries, keys and values are
// all f32, all bf16 or all f16; caches are f32, bf16, f16 or, for E a multiple of 32, q8_0.
// REQUIRES: E even; caches do not overlap the other tensors.
// Caches of q8_0 take three launches on devices other than CPUs.
void record_rope_append(Batch& batch, const RopeAppend& tensors, RopeLayout layout);

// Of T tokens, H query heads and G key heads of E elements.
Cost rope_append_cost(const Shape& queries, std::int64_t key_heads, DType type, DType cache_type);

}  // namespace clora
