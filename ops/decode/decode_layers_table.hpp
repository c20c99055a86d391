// cl/decode/decode_layers_table.clh: the sizes of the blocks and the addresses of their tensors,
// for the kernels that run all blocks in one launch, on CPUs and on GPUs alike.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "clora/ops/decode/decode_layers.hpp"

namespace clora {

using uint = std::uint32_t;  // OpenCL C's
#include "cl/decode/decode_dims_cpu.clh"
#include "cl/decode/decode_problem.clh"

struct DecodeSizes {
  std::int64_t layers, D, F, H, G, E, S;
  std::int64_t M = 1;  // rows
  std::int64_t W = 0;  // elements of a head that rope rotates; 0: none in any layer
  bool head_norms = false, post_norms = false;      // of all layers
  DType cache = DType::f32;                         // of the keys and values of all layers
  std::int64_t page = 0;                            // KeyPages::positions
  bool joined_heads = false, joined_gates = false;  // adapters of q, k and v; of gate and up
};
DecodeSizes decode_sizes(const DecodeLayers& decode);
DecodeProblem decode_problem(const DecodeLayers& decode);  // for the kernels
// Words per layer in the table of addresses: ADDRESSES of the kernels.
inline constexpr std::size_t kDecodeAddresses = 42;

std::array<const Tensor*, 7> matrices_of(const DecodeLayer& layer);
const Tensor& key_rope_table_of(const DecodeLayer& layer);  // empty: heads are not rotated
std::int64_t rank_of(const LoraWeights& lora);              // 0 if empty
// Whether the adapter of a projection, in the order of DecodeLayer::loras, is that of all with the
// same input.
bool has_joined_adapter(const DecodeLayer& layer, std::size_t projection);
bool has_bias(const DecodeLayer& layer);
bool has_adapter(const DecodeLayer& layer);
bool decode_is_adapted(const DecodeLayers& decode);  // whether any layer has an adapter
// The type of the adapters that kernels read: bf16 if all are stacks with copies, else f32.
DType adapter_type_of(const DecodeLayers& decode);
// That of the first layer with adapters; empty if the rows have one adapter, or none.
Tensor row_groups_of(const DecodeLayers& decode);
// Why the kernels that decode one row with one adapter do not support these layers; or nullptr.
const char* refusal_of_several_rows(const DecodeLayers& decode);

// Returns the table of the layers' addresses. Runs a batch on the device that fills it in, and
// waits for it.
Tensor decode_table(Context& context, const DecodeLayers& decode);
// The tensors that the table refers to, for Launch::uses.
std::vector<Tensor> tensors_of(const DecodeLayers& decode);

}  // namespace clora
