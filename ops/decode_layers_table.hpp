// cl/decode_layers_table.clh: what the kernels that run all blocks in one launch know of them, on
// CPUs and on GPUs alike: their sizes, and where their tensors lie.
#pragma once

#include <array>
#include <vector>

#include "ops/decode_layers.hpp"

namespace clora {

struct DecodeSizes {
  std::int64_t layers, D, F, H, G, E, S;
};
DecodeSizes decode_sizes(const DecodeLayers& decode);
// Words of a layer in the table of addresses, ADDRESSES of the kernels.
inline constexpr std::int64_t kDecodeAddresses = 35;
float decode_attention_scale(const DecodeSizes& sizes);

std::array<const Tensor*, 7> matrices_of(const DecodeLayer& layer);
std::int64_t rank_of(const LoraWeights& lora);  // 0 where it is empty
bool has_bias(const DecodeLayer& layer);
bool has_adapter(const DecodeLayer& layer);
bool decode_is_adapted(const DecodeLayers& decode);  // in any layer

// The layers' addresses, filled in by the device at once. `file` is the kernel's, which includes
// decode_layers_table.clh.
Tensor decode_table(Context& context, std::string_view file, const Defines& defines,
                    const DecodeLayers& decode);
// The tensors that it leads to, for Launch::uses.
std::vector<Tensor> tensors_of(const DecodeLayers& decode);

}  // namespace clora
