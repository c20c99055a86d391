// cl/decode_layers_gpu.cl: how one launch of decode_layers is made for cards, and what it shares
// with the one for CPUs.
#pragma once

#include <array>
#include <string>

#include "ops/decode_layers.hpp"

namespace clora {

struct DecodeSizes {
  std::int64_t layers, D, F, H, G, E, S;
};
DecodeSizes decode_sizes(const DecodeLayers& decode);
float decode_attention_scale(const DecodeSizes& sizes);

std::array<const Tensor*, 7> matrices_of(const DecodeLayer& layer);
bool has_bias(const DecodeLayer& layer);
bool has_adapter(const DecodeLayer& layer);
bool decode_is_adapted(const DecodeLayers& decode);  // in any layer
// For launches that know the layers by their addresses only: a call that does nothing uses them.
void keep_alive(Batch& batch, const DecodeLayers& decode);

inline constexpr std::string_view kDecodeLayersGpu = "decode_layers_gpu.cl";

// Whether the device runs groups side by side, and the layers are of sizes, a type and a layout
// that the kernel takes.
bool decode_layers_gpu_fit(const Context& context, const DecodeLayers& decode);
// Of its self-test.
std::string decode_layers_gpu_name(const DecodeLayers& decode);
// As record_decode_layers(). REQUIRES: decode_layers_gpu_fit(); tensors checked.
void record_decode_layers_gpu(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                              const Tensor& meeting);

}  // namespace clora
