// cl/decode/decode_layers.cl: the blocks of a decoding step in six launches per layer, for any
// device.
#pragma once

#include "clora/ops/decode/decode_layers.hpp"

namespace clora {

// Whether the kernels support the layers: matrices with the same input that are of one type, and
// sizes that are multiples of 8.
bool decode_layers_portable_fit(const Device& device, const DecodeLayers& decode);

// As record_decode_layers_unfused(), with the sums in another order. Runs a small batch
// immediately. REQUIRES: decode_layers_portable_fit(); checked tensors.
void record_decode_layers_portable(Batch& batch, const Tensor& x, const DecodeLayers& decode);

}  // namespace clora
