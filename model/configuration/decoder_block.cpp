#include "model/configuration/decoder_block.hpp"

namespace clora {
namespace {

SubLayerSpec attention_layer(const ModelConfig& c, const DecoderBlockOptions& options) {
  const std::int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
  const auto projection = [&](const char* name, const char* gguf, std::int64_t outputs,
                              std::int64_t rotated_head_dim) {
    return LinearSpec{{name, gguf}, outputs, c.hidden_size, options.qkv_bias, rotated_head_dim};
  };
  AttentionLayerSpec attention{
      .heads = c.heads,
      .kv_heads = c.kv_heads,
      .head_dim = c.head_dim,
      .q = projection("self_attn.q_proj", "attn_q", queries, c.head_dim),
      .k = projection("self_attn.k_proj", "attn_k", keys, c.head_dim),
      .v = projection("self_attn.v_proj", "attn_v", keys, 0),
      .o = {{"self_attn.o_proj", "attn_output"}, c.hidden_size, queries, options.o_bias},
      .rope = c.rope,
      .window = options.window};
  if (options.qk_norm) {
    attention.q_norm = NormSpec{{"self_attn.q_norm", "attn_q_norm"}, c.head_dim};
    attention.k_norm = NormSpec{{"self_attn.k_norm", "attn_k_norm"}, c.head_dim};
  }
  return {.norm = {{"input_layernorm", "attn_norm"}, c.hidden_size}, .f = std::move(attention)};
}

SubLayerSpec feed_forward_layer(const ModelConfig& c, const DecoderBlockOptions& options) {
  const bool has_bias = options.feed_forward_bias;
  const std::int64_t D = c.hidden_size, F = c.intermediate_size;
  return {.norm = {{"post_attention_layernorm", "ffn_norm"}, D},
          .f = FeedForwardLayerSpec{.function = options.function,
                                    .gate = {{"mlp.gate_proj", "ffn_gate"}, F, D, has_bias},
                                    .up = {{"mlp.up_proj", "ffn_up"}, F, D, has_bias},
                                    .down = {{"mlp.down_proj", "ffn_down"}, D, F, has_bias}}};
}

}  // namespace

BlockSpec decoder_block(const ModelConfig& config, const DecoderBlockOptions& options) {
  return {attention_layer(config, options), feed_forward_layer(config, options)};
}

std::vector<BlockSpec> decoder_blocks(const ModelConfig& config,
                                      const DecoderBlockOptions& options) {
  return std::vector(static_cast<std::size_t>(config.layers), decoder_block(config, options));
}

}  // namespace clora
