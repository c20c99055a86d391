// cl/decode/decode_layers.cl: the blocks of a decoding step in six launches per layer, and one for
// each norm of heads or outputs, for any device.
#pragma once

#include "clora/ops/decode/decode_layers.hpp"

namespace clora {

inline constexpr std::string_view kDecodeLayersPortable = "decode_layers.cl";

// Matrices with the same input must be of one type, and sizes multiples of 8.
const char* decode_layers_portable_refusal(const Context& context, const DecodeLayers& decode);

// As record_decode_layers_unfused(), with the sums in another order. Runs a small batch
// immediately. The last argument is not used. REQUIRES: no refusal; checked tensors.
void record_decode_layers_portable(Batch& batch, const Tensor& x, const DecodeLayers& decode,
                                   const Tensor& grid_barrier);

}  // namespace clora
