// lora_embedding: a frozen table of embeddings with a low-rank adapter, which PEFT calls
// lora_embedding_A and lora_embedding_B.
//
//   s   = factor * scale * a[:, ids]^T     [T, R]   saved for the backward
//   y  += s b^T
//   db += dy^T s                           ds = factor * scale * dy b
//   da[:, v] += the sum of ds[t] over the tokens t with ids[t] = v
//
// a is [R, V], and b [D, R] is stored transposed, bt [R, D]: the matrices of a linear layer whose
// inputs are the V tokens, one of which is 1 in each row. There is no dropout, as in PEFT. An id
// outside of the table adds nothing. `factor` multiplies the embeddings of some models
// (ModelConfig::embedding_scale). Deterministic: an id's gradient is summed in the order of tokens.
#pragma once

#include "clora/ops/lora_linear/lora_linear.hpp"

namespace clora {

// Adds to y [T, D] f32, the rows of the frozen table for ids [T] i32. Overwrites s [T, R] f32. Of
// `lora`, uses a, bt and scale; or with row_groups [T, 4], stacks a [adapters, R, V] and bt
// [adapters, R, D], of which each row uses the adapter, the rank and the scale in the table of
// row_group_table() (ops/gemm/epilogue.hpp), or none. REQUIRES: no column_scale.
void record_lora_embedding(Batch& batch, const Tensor& y, const Tensor& s, const Tensor& ids,
                           const LoraWeights& lora, float factor = 1);

// Accumulates gradients for dy [T, D], f32, bf16 or f16. The table is frozen, and ids have none.
// REQUIRES: no row_groups.
struct LoraEmbeddingSaved {
  Tensor ids;  // [T] i32
  Tensor s;    // [T, R], from the forward
};
void record_lora_embedding_backward(Batch& batch, const LoraGradients& gradients, const Tensor& dy,
                                    const LoraEmbeddingSaved& saved, const LoraWeights& lora,
                                    float factor = 1);

// The gradient of a table [V, D] that is trained itself: dtable[v] += factor times the sum of dy[t]
// over the tokens t with ids[t] = v. dtable [V, D] and dy [T, D] are f32, ids [T] i32.
// Deterministic, as above.
void record_table_gradient(Batch& batch, const Tensor& dtable, const Tensor& dy, const Tensor& ids,
                           float factor = 1);

}  // namespace clora
