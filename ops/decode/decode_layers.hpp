// decode_layers: all blocks of a transformer for M rows, each over its own part of the KV cache,
// one step of a generation. Each linear layer may have an adapter, or each row one of its own.
//
//   for each layer   h = rms_norm(x);  q, k, v = h w^T + bias
//                    q, k = rope(head_norm(q)), rope(head_norm(k));  k, v to the cache, rounded
//                    to its type
//                    x += multiplier post_norm(attention(q, keys, values) w_o^T)
//                    h = rms_norm(x)
//                    x += multiplier post_norm(swiglu(h w_gate^T, h w_up^T) w_down^T)
//
// Biases, norms of heads and of outputs, and rope are optional; ropes of queries and of keys may
// differ.
//
// It can be one launch, with grid barriers between its parts: on pocl's threaded device, where
// waking threads between hundreds of launches costs more than the products
// (cl/decode/decode_layers_cpu.cl), and on NVIDIA GPUs, where a launch costs more than a grid
// barrier (cl/decode/decode_layers_gpu.cl). In the variant portable it is six launches per layer,
// and one more per product with an adapter (cl/decode/decode_layers.cl). The latter two are for one
// row. The result is bit-identical to the unfused reference on pocl with its threads, for as few
// rows as this multiplies as integers, and differs only in the order of sums otherwise.
#pragma once

#include <array>
#include <vector>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/rowwise/swiglu.hpp"

namespace clora {

// Tensors of this struct are not temporaries of the batch: kernels may read them by their
// addresses.
struct DecodeLayer {
  Tensor input_norm;                             // [D]
  Tensor q, k, v;                                // [H E, D], [G E, D], [G E, D]
  Tensor o;                                      // [D, H E]
  Tensor output_norm;                            // [D]
  Tensor gate, up, down;                         // [F, D], [F, D], [D, F]
  Tensor key_cache, value_cache;                 // [S, G, E]: f32, bf16, f16 or q8_0, all one
  Tensor first;                                  // [M] i32: the first key that a row attends to
  Tensor rope_table = {};                        // [P, W / 2, 2], or empty: heads are not rotated
  Tensor key_rope_table = {};                    // the same of keys; empty: rope_table
  Tensor q_bias = {}, k_bias = {}, v_bias = {};  // [H E], [G E], [G E] f32, or empty
  Tensor q_norm = {}, k_norm = {};               // [E], of each head; or empty
  Tensor attention_post_norm = {}, feed_forward_post_norm = {};  // [D], or empty
  // Adapters of q, k, v, o, gate, up, down, in this order; or empty. Without dropout and column
  // scales; with the same row groups [M, 4] in all of them, or without. q, k and v may have one
  // adapter, as a layer that a file stores in place of the three: then all three elements are that
  // one, whose bt [R, (H + 2 G) E] has their columns side by side; gate and up likewise, bt [R, 2
  // F]. That is so in all layers that adapt them, or in none; and not with row groups.
  std::array<LoraWeights, 7> loras = {};
};

struct DecodeLayers {
  // Head norms, post-norms: of all layers or of none. Ropes rotate the first W elements of each
  // head, the same W in all layers, in the half-split layout.
  std::vector<DecodeLayer> layers;
  // [M] i32: a row's position, the last key that it attends to, and the row of the caches to which
  // its own key and value are written; outside of [0, S) they are not written. Rows may be of the
  // same sequence: all keys are written before any is read.
  Tensor position, last, slot;
  KeyPages pages;          // of the caches, with table_of [M]
  std::int64_t heads = 0;  // H
  float epsilon = 0;
  float scale = 0;     // of scores
  float soft_cap = 0;  // of scores (AttentionInputs); 0: none
  float multiplier = 1;
  GateFunction function = GateFunction::silu;
};

// Replaces x [M, D] by the last block's output and writes the rows' keys and values to the caches
// at `slot`. REQUIRES: position < P.
void record_decode_layers_unfused(Batch& batch, const Tensor& x, const DecodeLayers& decode);

// Whether any kernels for all layers exist for so many rows on the Context. If not, both functions
// below are false for all layers, which then need not be described. Also true if
// ContextConfig::implementations names one of the kernels, so that its refusal is an error.
bool decodes_rows(Context& context, std::int64_t rows);

// Whether these layers are decoded in one launch: its implementation supports them on the Context,
// its work-groups are co-resident (ops/dispatch/co_resident_groups.hpp), and its program has passed
// its self-test.
bool decodes_in_one_launch(Context& context, const DecodeLayers& decode);

// The same as one launch. `grid_barrier` [3] i32 must be zero before the batch first runs and is
// used by this batch only. Afterwards its second element is 0, or nonzero if the work-groups of a
// launch did not run at once and gave up after some seconds; the outputs are then undefined. Runs a
// small batch immediately. REQUIRES: decodes_in_one_launch().
void record_decode_layers(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                          const Tensor& grid_barrier);

// Whether these layers are decoded in few launches per layer.
bool decodes_in_few_launches(Context& context, const DecodeLayers& decode);

// The same in few launches per layer. Runs a small batch immediately. REQUIRES:
// decodes_in_few_launches().
void record_decode_layers_in_few_launches(Batch& batch, const Tensor& x,
                                          const DecodeLayers& decode);

// Whether layers with row groups read the bf16 copies of their adapters (LoraWeights::a_bf16), if
// all have them: where other products round as much.
bool decodes_bf16_stacks(const Context& context);

Cost decode_layers_cost(const DecodeLayers& decode);

}  // namespace clora
