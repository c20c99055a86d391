// cl/decode/decode_layers_cpu.cl: decode_layers as one launch on CPU devices.
#pragma once

#include "clora/ops/decode/decode_layers.hpp"

namespace clora {

inline constexpr std::string_view kDecodeLayersCpu = "decode_layers_cpu.cl";
inline constexpr std::int64_t kMaxDecodeRowsCpu = 16;  // more are faster on tiles

const char* decode_layers_cpu_refusal(const Context& context, const DecodeLayers& decode);
// Also whether the Context may rely on pocl's threads, which this reserves for it.
bool decode_layers_cpu_passed(Context& context, const DecodeLayers& decode);
// REQUIRES: no refusal; checked tensors.
void record_decode_layers_cpu(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                              const Tensor& grid_barrier);

}  // namespace clora
