// Parts of reading a GGUF file's configuration that families share. Private to model/.
#pragma once

#include "clora/model/configuration/model_config.hpp"
#include "model/configuration/gguf_keys.hpp"

namespace clora {

// The sizes, the norms' epsilon, the number of positions, whether the head is tied, and the rope.
// A family whose layers differ has read kv_heads before. Errors:
// invalid_file, unsupported, with the file and the key. may_rotate_partly: whether the rope may be
// of a part of each head.
void read_gguf_decoder(const GgufKeys& keys, ModelConfig& config, bool may_rotate_partly = false);

// attention.sliding_window; nullopt if it is absent or 0.
std::optional<std::int64_t> read_gguf_window(const GgufKeys& keys);

}  // namespace clora
