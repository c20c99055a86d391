// All blocks of a model as one op, for decoding one row at a time.
#pragma once

#include <optional>
#include <span>

#include "clora/model/families/block.hpp"
#include "clora/ops/decode/decode_layers.hpp"

namespace clora {

// Returns a model's blocks with their matrices of `adapter` (null: none) for one row over their
// caches, in the form of ops/decode/decode_layers.hpp; nullopt if they have something that op does
// not support: head norms, another rotary layout, biases other than those of q, k and v, or weights
// in several parts.
std::optional<DecodeLayers> decode_layers_of(LanguageModel& model, const Adapter* adapter,
                                             std::span<const CacheTensors> caches,
                                             const Tensor& rope_table, const RowInputs& rows);

}  // namespace clora
