// Linear layers that GPTQ, AWQ or bitsandbytes quantised: each becomes one weight that clora reads.
// Private to model/.
//
// The tensors of a layer X with K inputs and N outputs; I32 words hold 32 / bits codes, the first
// in the lowest bits:
//   gptq  X.qweight I32 [K bits / 32, N], codes of consecutive inputs; X.qzeros I32
//         [groups, N bits / 32], zero points of consecutive outputs (in the first format less 1);
//         X.scales F16 [groups, N]; X.g_idx I32 [K], the group of an input, by default
//         k / group_size. w[n, k] = scale (code - zero)
//   awq   X.qweight I32 [K, N / 8], X.qzeros I32 [groups, N / 8], in both a word's nibbles are
//         outputs 0, 2, 4, 6, 1, 3, 5, 7 of eight; X.scales F16 [groups, N]
//   nf4   X.weight U8, two codes in a byte, the first in the upper nibble, of the elements of
//         [N, K] in order; X.weight.absmax, one per blocksize elements, F32, or U8 with
//         X.weight.nested_quant_map F32 [256] and X.weight.nested_absmax F32, one per
//         nested_blocksize: absmax = map[code] nested_absmax + nested_offset; X.weight.quant_map
//         F32 [16]; X.weight.quant_state.bitsandbytes__nf4, a JSON object with blocksize, shape,
//         nested_blocksize and nested_offset. w = map[code] absmax
// Sources: AutoGPTQ's and GPTQModel's QuantLinear, AutoAWQ's WQLinear_GEMM and packing_utils,
// bitsandbytes' QuantState.as_dict and functional.dequantize_4bit.
//
// These programs round w to the type of their activations; here it is exact in f32, as in the
// blocks of q4_z, q8_z and nf4 (model/files/block_decoders.hpp). If 32 inputs in one block have
// several groups (desc_act), or nf4's rows are not whole blocks of 64, the weight becomes f32.
#pragma once

#include <vector>

#include "model/configuration/quantisation_scheme.hpp"
#include "model/weights/weight_sources.hpp"

namespace clora {

// Replaces the tensors of each quantised layer that `needs` has by one, X.weight. A bias of zeros
// that a model does not need, which older releases of AutoGPTQ add, is removed. Errors:
// invalid_file for tensors that are missing or contradict each other; unsupported for what the
// blocks cannot hold.
void arrange_quantised_layers(StoredWeights& weights, const std::vector<WeightNeed>& needs,
                              const QuantisationScheme& scheme);

}  // namespace clora
