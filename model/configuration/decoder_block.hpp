// The block of most decoders: attention and a gated feed-forward, each after an RMS norm, with the
// names that Llama's files gave them. Private to model/.
#pragma once

#include <optional>

#include "clora/model/configuration/model_config.hpp"

namespace clora {

struct DecoderBlockOptions {
  bool qkv_bias = false;
  bool o_bias = false;
  bool feed_forward_bias = false;
  bool qk_norm = false;  // RMS norm of each query and key head before the rotation
  std::optional<std::int64_t> window = {};  // AttentionLayerSpec::window
  GateFunction function = GateFunction::silu;
};

// Of the sizes and the rope of `config`.
BlockSpec decoder_block(const ModelConfig& config, const DecoderBlockOptions& options = {});
// One for each layer, all alike.
std::vector<BlockSpec> decoder_blocks(const ModelConfig& config,
                                      const DecoderBlockOptions& options = {});

}  // namespace clora
