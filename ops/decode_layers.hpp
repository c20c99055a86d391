// decode_layers: all blocks of a transformer for one row over its KV cache, the step of a
// generation. Each product may have an adapter.
//
//   for each layer   x += attention(rotated q and k, v of rms_norm(x), over the cache) w_o^T
//                    x += swiglu(rms_norm(x) w_gate^T, rms_norm(x) w_up^T) w_down^T
//
// It can be one launch, with grid barriers between its parts: on pocl's threaded device, where
// waking threads between hundreds of launches costs more than the products
// (cl/decode_layers_cpu.cl), and on NVIDIA GPUs, where a launch costs more than a grid barrier
// (cl/decode_layers_gpu.cl). The unfused reference gives the same bits on pocl, and on GPUs the
// same up to the order of sums.
#pragma once

#include <array>
#include <vector>

#include "ops/lora_linear.hpp"

namespace clora {

struct DecodeLayer {
  Tensor input_norm;                             // [D]
  Tensor q, k, v;                                // [H E, D], [G E, D], [G E, D]
  Tensor o;                                      // [D, H E]
  Tensor output_norm;                            // [D]
  Tensor gate, up, down;                         // [F, D], [F, D], [D, F]
  Tensor key_cache, value_cache;                 // [S, G, E]
  Tensor q_bias = {}, k_bias = {}, v_bias = {};  // [H E], [G E], [G E] f32, or empty
  // Of q, k, v, o, gate, up, down; without dropout, or empty.
  std::array<LoraWeights, 7> loras = {};
};

struct DecodeLayers {
  std::vector<DecodeLayer> layers;
  Tensor rope_table;             // [P, E / 2, 2]; heads are rotated in the half-split layout
  Tensor position, first, last;  // [1] i32: the row's own, and the keys that it sees
  std::int64_t heads = 0;        // H
  float epsilon = 0;
};

// x [1, D] becomes the last block's output; its keys and values are written to the caches at
// `position`. REQUIRES: position < P.
void record_decode_layers_unfused(Batch& batch, const Tensor& x, const DecodeLayers& decode);

// Whether the Context may count on co-resident work-groups (ops/co_resident_groups.hpp), its device
// and variant and these layers allow one launch, and the self-test of its program has not failed.
bool decodes_in_one_launch(Context& context, const DecodeLayers& decode);

// The same as one launch. `grid_barrier` [3] i32, zeros before the batch first runs and its alone:
// its second element is 0 afterwards, or another number where the work-groups of a launch did not
// run at once and gave up after some seconds: what it was to write is undefined then. Runs a small
// batch at once. REQUIRES: decodes_in_one_launch().
void record_decode_layers(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                          const Tensor& grid_barrier);

Cost decode_layers_cost(const DecodeLayers& decode);

}  // namespace clora
