// cl/decode_layers_gpu.cl: how one launch of decode_layers is made for cards.
#pragma once

#include <string>

#include "ops/decode_layers.hpp"

namespace clora {

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
