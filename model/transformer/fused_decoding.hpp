// All blocks of a model as one op, for decoding one row at a time.
#pragma once

#include <string>
#include <variant>

#include "clora/ops/decode/decode_layers.hpp"
#include "model/transformer/recording.hpp"

namespace clora {

// Returns the blocks of a pass of one row over KV caches, in the form of
// ops/decode/decode_layers.hpp; or why that op does not support them. REQUIRES: the recording has
// caches.
std::variant<DecodeLayers, std::string> decode_layers_of(Recording& recording);

}  // namespace clora
