// rope: rotary position embedding (Su et al., 2021). Each pair (x_i, x_j) of a head is rotated by
// the angle of its position and pair: (x_i c - x_j s, x_i s + x_j c). The cosines and sines come
// from a table that the host computes in double (model/transformer/rope_table.hpp), so that base,
// scaling and long positions are exact. A table of fewer than E/2 pairs rotates as many pairs, of
// the first elements of each head; the others keep their values.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

enum class RopeLayout {
  half_split,   // pairs (i, i + E/2): Hugging Face
  interleaved,  // pairs (2i, 2i + 1): GGUF files of Llama
};

enum class RopeDirection { forward, backward };  // backward rotates by -angle: the gradient

// y [T, H, E] = rotated x [T, H, E], both f32 or both bf16; y may be x. positions [T] i32, each
// below P, or below 0 in rows of padding; table [P, R, 2] f32 holds cosine and sine of R pairs, at
// most E/2. Pairs in the half_split layout are (i, i + R). REQUIRES: E even; y is x if R is less
// than E/2.
void record_rope(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& positions,
                 const Tensor& table, RopeLayout layout, RopeDirection direction);

struct RopeTensors {
  Tensor y, x;
  Tensor table = {};  // of the shape of the call's, for these tensors in its place; empty: that one
};

// The same for two tensors with equal token counts, head dims and types: queries and keys. One
// launch unless the device is a CPU.
void record_rope_of_two(Batch& batch, const RopeTensors& first, const RopeTensors& second,
                        const Tensor& positions, const Tensor& table, RopeLayout layout,
                        RopeDirection direction);

// Gradients of an attention in which those of keys and values are parts, one per query head
// (record_attention_backward_in_parts()). All f32 or all bf16, E even, H a multiple of G; the table
// has E/2 pairs.
struct RopeOfParts {
  Tensor queries;                 // [T, H, E], rotated in place
  Tensor keys, values;            // [T, G, E], overwritten
  Tensor key_parts, value_parts;  // [T, H, E]
  Tensor key_table = {};          // of keys, if it is not the call's; of the same shape
};

// keys = the rotated sums, values = the sums, of the parts of a head's H / G query heads, added in
// order. One launch, and the same kernel on all devices.
void record_rope_of_parts(Batch& batch, const RopeOfParts& tensors, const Tensor& positions,
                          const Tensor& table, RopeLayout layout, RopeDirection direction);

Cost rope_cost(const Shape& x, DType type = DType::f32);
Cost rope_of_parts_cost(const Shape& queries, std::int64_t key_heads, DType type = DType::f32);

}  // namespace clora
