#include "model/families/decoding_blocks.hpp"

#include <algorithm>

namespace clora {

std::optional<DecodeLayers> decode_layers_of(LanguageModel& model, const Adapter* adapter,
                                             std::span<const CacheTensors> caches,
                                             const Tensor& rope_table, const RowInputs& rows) {
  const ModelConfig& c = model.config();
  if (c.qk_norm || c.rope_layout != RopeLayout::half_split) return std::nullopt;
  DecodeLayers decode{.layers = {},
                      .rope_table = rope_table,
                      .position = rows.positions,
                      .first = rows.first,
                      .last = rows.last,
                      .heads = c.heads,
                      .epsilon = static_cast<float>(c.rms_norm_epsilon)};
  for (std::size_t l = 0; l < caches.size(); ++l) {
    const Block block = block_of(model, adapter, static_cast<std::int64_t>(l));
    const BlockWeights& w = *block.weights;
    if (std::ranges::any_of(w.linears, [](const auto& linear) { return linear.w.is_split(); })) {
      return std::nullopt;
    }
    for (const Projection p : {kO, kGate, kUp, kDown}) {
      if (!w.linears[p].bias.empty()) return std::nullopt;
    }
    decode.layers.push_back({.input_norm = w.input_norm,
                             .q = w.linears[kQ].w.whole(),
                             .k = w.linears[kK].w.whole(),
                             .v = w.linears[kV].w.whole(),
                             .o = w.linears[kO].w.whole(),
                             .output_norm = w.post_attention_norm,
                             .gate = w.linears[kGate].w.whole(),
                             .up = w.linears[kUp].w.whole(),
                             .down = w.linears[kDown].w.whole(),
                             .key_cache = caches[l].keys,
                             .value_cache = caches[l].values,
                             .q_bias = w.linears[kQ].bias,
                             .k_bias = w.linears[kK].bias,
                             .v_bias = w.linears[kV].bias,
                             .loras = block.loras});
  }
  return decode;
}

}  // namespace clora
