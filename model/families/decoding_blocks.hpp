// All of a model's blocks as one op, for decoding a row at a time.
#pragma once

#include <optional>
#include <span>

#include "model/families/block.hpp"
#include "ops/decode_layers.hpp"

namespace clora {

// A model's blocks with their matrices of `adapter` (null: none) for one row over their caches, as
// ops/decode_layers.hpp has them; nothing where they have what it does not: norms of heads, other
// rotary pairs, biases but of q, k and v.
std::optional<DecodeLayers> decode_layers_of(LanguageModel& model, const Adapter* adapter,
                                             std::span<const CacheTensors> caches,
                                             const Tensor& rope_table, const RowInputs& rows);

}  // namespace clora
