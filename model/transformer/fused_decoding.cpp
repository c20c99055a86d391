#include "model/transformer/fused_decoding.hpp"

#include <fmt/format.h>

namespace clora {
namespace {

const char* refusal_of(const BlockWeights& block) {
  const bool is_usual = block.size() == 2 && std::holds_alternative<AttentionWeights>(block[0].f) &&
                        std::holds_alternative<FeedForwardWeights>(block[1].f);
  if (!is_usual) return "a block is not attention and a gated feed-forward";
  const auto& attention = std::get<AttentionWeights>(block[0].f);
  const auto& feed_forward = std::get<FeedForwardWeights>(block[1].f);
  if (attention.qkv.size() != 3 || feed_forward.gate_up.size() != 2) {
    return "several linear layers are one";
  }
  if (!attention.q_norm.empty() || !attention.k_norm.empty()) return "heads are normalised";
  if (!attention.spec.rope || attention.spec.rope->width != attention.spec.head_dim) {
    return "heads are not rotated, or not wholly";
  }
  if (attention.spec.rope->temperature) return "queries are multiplied by their position";
  if (attention.spec.soft_cap != 0) return "scores are soft-capped";
  if (attention.spec.scale) return "scores have another scale";
  if (feed_forward.spec.function != GateFunction::silu) return "the gate is not silu";
  for (const SubLayerWeights& layer : block) {
    if (!layer.post_norm.empty()) return "outputs of sub-layers are normalised";
    if (layer.multiplier != 1) return "outputs of sub-layers are multiplied";
  }
  const LinearLayer* const without_bias[] = {&attention.o, &feed_forward.gate_up[0],
                                             &feed_forward.gate_up[1], &feed_forward.down};
  for (const LinearLayer* each : without_bias) {
    if (!each->weights.bias.empty()) return "a layer other than q, k and v has a bias";
    if (each->weights.w.is_split()) return "weights are in several parts";
  }
  for (const LinearLayer& each : attention.qkv) {
    if (each.weights.w.is_split()) return "weights are in several parts";
  }
  return nullptr;
}

// What all blocks share must be equal in all of them.
const char* refusal_of(const AttentionLayerSpec& spec, const AttentionLayerSpec& first) {
  if (spec.rope != first.rope) return "blocks have different ropes";
  if (spec.window != first.window) return "blocks have different windows";
  if (spec.heads != first.heads || spec.kv_heads != first.kv_heads ||
      spec.head_dim != first.head_dim) {
    return "blocks have different heads";
  }
  return nullptr;
}

DecodeLayer decode_layer(Recording& recording, const BlockWeights& block) {
  const auto& attention = std::get<AttentionWeights>(block[0].f);
  const auto& feed_forward = std::get<FeedForwardWeights>(block[1].f);
  const CacheTensors& cache = *recording.cache(attention.cache_index);
  const auto lora = [&](const LinearLayer& layer) { return recording.adapted(layer).lora; };
  return {.input_norm = block[0].norm,
          .q = attention.qkv[0].weights.w.whole(),
          .k = attention.qkv[1].weights.w.whole(),
          .v = attention.qkv[2].weights.w.whole(),
          .o = attention.o.weights.w.whole(),
          .output_norm = block[1].norm,
          .gate = feed_forward.gate_up[0].weights.w.whole(),
          .up = feed_forward.gate_up[1].weights.w.whole(),
          .down = feed_forward.down.weights.w.whole(),
          .key_cache = cache.keys,
          .value_cache = cache.values,
          .q_bias = attention.qkv[0].weights.bias,
          .k_bias = attention.qkv[1].weights.bias,
          .v_bias = attention.qkv[2].weights.bias,
          .loras = {lora(attention.qkv[0]), lora(attention.qkv[1]), lora(attention.qkv[2]),
                    lora(attention.o), lora(feed_forward.gate_up[0]), lora(feed_forward.gate_up[1]),
                    lora(feed_forward.down)}};
}

}  // namespace

std::variant<DecodeLayers, std::string> decode_layers_of(Recording& recording) {
  const std::vector<BlockWeights>& blocks = recording.model().blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const char* why = refusal_of(blocks[i]);
    const auto spec = [](const BlockWeights& block) -> const AttentionLayerSpec& {
      return std::get<AttentionWeights>(block[0].f).spec;
    };
    if (why == nullptr) why = refusal_of(spec(blocks[i]), spec(blocks.front()));
    if (why != nullptr) return fmt::format("block {}: {}", i, why);
  }
  const AttentionLayerSpec& shared = std::get<AttentionWeights>(blocks.front()[0].f).spec;
  const Recording::KeyRanges ranges = recording.key_ranges(shared);
  DecodeLayers decode{.layers = {},
                      .rope_table = recording.rope_table(*shared.rope),
                      .position = recording.row_inputs().positions,
                      .first = ranges.first,
                      .last = ranges.last,
                      .heads = shared.heads,
                      .epsilon = recording.epsilon()};
  for (const BlockWeights& block : blocks) decode.layers.push_back(decode_layer(recording, block));
  return decode;
}

}  // namespace clora
