#include "model/transformer/fused_decoding.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "model/transformer/attention_layer.hpp"

namespace clora {
namespace {

// Why the op does not compute a linear layer of a block; or nullptr.
const char* refusal_of(Recording& recording, const LinearLayer& layer, bool may_have_bias) {
  if (layer.weights.w.is_split()) return "weights are in several parts";
  if (!recording.adapted(layer).lora.column_scale.empty()) return "adapters have column scales";
  const bool has_bias = !layer.weights.bias.empty();
  return has_bias && !may_have_bias ? "a layer other than q, k and v has a bias" : nullptr;
}

// The rows of q, k and v.
std::vector<std::int64_t> qkv_rows(const AttentionLayerSpec& spec) {
  const std::int64_t kv = spec.kv_heads * spec.head_dim;
  return {spec.heads * spec.head_dim, kv, kv};
}
// The rows of gate and up.
std::vector<std::int64_t> gate_up_rows(const FeedForwardWeights& feed_forward) {
  return {feed_forward.spec.down.inputs, feed_forward.spec.down.inputs};
}

// The same for a layer that a file may store in place of several, which have `rows`.
const char* refusal_of_joined(Recording& recording, const std::vector<LinearLayer>& layers,
                              const std::vector<std::int64_t>& rows) {
  if (layers.size() != 1) return nullptr;
  const LinearLayer& layer = layers.front();
  if (!recording.adapted(layer).lora.row_groups.empty()) {
    return "a layer that is several in one has adapters of rows";
  }
  const Tensor& w = layer.weights.w.whole();
  const std::size_t row_bytes = w.bytes() / static_cast<std::size_t>(w.shape()[0]);
  const std::size_t alignment = recording.model().context().device().base_alignment_bytes;
  std::int64_t begin = 0;
  for (const std::int64_t count : rows) {
    const bool is_panel = w.layout() == Layout::plain || begin % kPackedRows == 0;
    if (!is_panel || static_cast<std::size_t>(begin) * row_bytes % alignment != 0) {
      return "a layer that is several in one cannot be divided";
    }
    begin += count;
  }
  return nullptr;
}

const char* refusal_of(Recording& recording, const BlockWeights& block) {
  const bool is_usual = block.size() == 2 && std::holds_alternative<AttentionWeights>(block[0].f) &&
                        std::holds_alternative<FeedForwardWeights>(block[1].f);
  if (!is_usual) return "a block is not attention and a gated feed-forward";
  for (const SubLayerWeights& layer : block) {
    if (!layer.sum_norm.empty()) return "sums are normalised";
    if (!layer.norm.is_rms_norm()) return "norms are not those of rms_norm";
  }
  const auto& attention = std::get<AttentionWeights>(block[0].f);
  const auto& feed_forward = std::get<FeedForwardWeights>(block[1].f);
  if (attention.spec.output_gate) return "attention's output has a gate";
  if (attention.q_norm.empty() != attention.k_norm.empty()) return "only q or k is normalised";
  if (block[0].post_norm.empty() != block[1].post_norm.empty()) {
    return "only one of two outputs is normalised";
  }
  for (const LinearLayer& each : attention.qkv) {
    if (const char* why = refusal_of(recording, each, true)) return why;
  }
  for (const LinearLayer& each : feed_forward.gate_up) {
    if (const char* why = refusal_of(recording, each, false)) return why;
  }
  for (const LinearLayer* each : {&attention.o, &feed_forward.down}) {
    if (const char* why = refusal_of(recording, *each, false)) return why;
  }
  if (const char* why = refusal_of_joined(recording, attention.qkv, qkv_rows(attention.spec))) {
    return why;
  }
  return refusal_of_joined(recording, feed_forward.gate_up, gate_up_rows(feed_forward));
}

// What all blocks share must be equal in all of them.
const char* refusal_of(const BlockWeights& block, const BlockWeights& first) {
  const auto& attention = std::get<AttentionWeights>(block[0].f);
  const auto& shared = std::get<AttentionWeights>(first[0].f);
  if (attention.spec.heads != shared.spec.heads ||
      attention.spec.kv_heads != shared.spec.kv_heads ||
      attention.spec.head_dim != shared.spec.head_dim) {
    return "blocks have different heads";
  }
  if (attention.spec.scale != shared.spec.scale) return "blocks have different scales of scores";
  if (attention.spec.soft_cap != shared.spec.soft_cap) return "blocks have different soft caps";
  if (attention.q_norm.empty() != shared.q_norm.empty() ||
      block[0].post_norm.empty() != first[0].post_norm.empty()) {
    return "blocks have different norms";
  }
  if (std::get<FeedForwardWeights>(block[1].f).spec.function !=
      std::get<FeedForwardWeights>(first[1].f).spec.function) {
    return "blocks have different gates";
  }
  for (const SubLayerWeights& layer : block) {
    if (layer.multiplier != first[0].multiplier) return "outputs have different factors";
  }
  return nullptr;
}

const char* refusal_of_ropes(const std::vector<BlockWeights>& blocks) {
  std::optional<std::int64_t> width;
  for (const BlockWeights& block : blocks) {
    const auto& rope = std::get<AttentionWeights>(block[0].f).spec.rope;
    if (!rope) continue;
    if (rope->width != width.value_or(rope->width)) return "blocks rotate different widths";
    width = rope->width;
  }
  return nullptr;
}

// Layers with the same input, of which a file may store several as one, taken apart: the tensors of
// each, of `rows` rows. The adapter of one layer in place of several is that of each of them.
struct Split {
  Split(Recording& recording, const std::vector<LinearLayer>& layers,
        const std::vector<std::int64_t>& rows) {
    const bool is_one = layers.size() == 1;
    std::int64_t begin = 0;
    for (const std::int64_t count : rows) {
      const LinearLayer& layer = layers[is_one ? 0 : w.size()];
      const Tensor& whole = layer.weights.w.whole();
      const Tensor& all = layer.weights.bias;
      w.push_back(is_one ? whole.rows(begin, count) : whole);
      bias.push_back(is_one && !all.empty() ? all.rows(begin, count) : all);
      lora.push_back(recording.adapted(layer).lora);
      begin += count;
    }
  }
  std::vector<Tensor> w, bias;
  std::vector<LoraWeights> lora;
};

DecodeLayer decode_layer(Recording& recording, const BlockWeights& block) {
  const auto& attention = std::get<AttentionWeights>(block[0].f);
  const auto& feed_forward = std::get<FeedForwardWeights>(block[1].f);
  const AttentionLayerSpec& spec = attention.spec;
  const Split qkv(recording, attention.qkv, qkv_rows(spec));
  const Split gate_up(recording, feed_forward.gate_up, gate_up_rows(feed_forward));
  const CacheTensors& cache = *recording.cache(attention.cache_index);
  return {.input_norm = block[0].norm.w,
          .q = qkv.w[0],
          .k = qkv.w[1],
          .v = qkv.w[2],
          .o = attention.o.weights.w.whole(),
          .output_norm = block[1].norm.w,
          .gate = gate_up.w[0],
          .up = gate_up.w[1],
          .down = feed_forward.down.weights.w.whole(),
          .key_cache = cache.at(0),
          .value_cache = cache.at(1),
          .first = recording.key_ranges(spec).first,
          .rope_table = spec.rope ? recording.rope_table(*spec.rope) : Tensor(),
          .key_rope_table = spec.rope ? recording.key_rope_table(*spec.rope) : Tensor(),
          .q_bias = qkv.bias[0],
          .k_bias = qkv.bias[1],
          .v_bias = qkv.bias[2],
          .q_norm = attention.q_norm.w,
          .k_norm = attention.k_norm.w,
          .attention_post_norm = block[0].post_norm.w,
          .feed_forward_post_norm = block[1].post_norm.w,
          .loras = {qkv.lora[0], qkv.lora[1], qkv.lora[2], recording.adapted(attention.o).lora,
                    gate_up.lora[0], gate_up.lora[1], recording.adapted(feed_forward.down).lora}};
}

}  // namespace

std::variant<DecodeLayers, std::string> decode_layers_of(Recording& recording) {
  const std::vector<BlockWeights>& blocks = recording.model().blocks();
  if (recording.adapter() != nullptr && !recording.adapter()->saved_tensors().empty()) {
    return "the adapter has modules trained in full";
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const char* why = refusal_of(recording, blocks[i]);
    if (why == nullptr) why = refusal_of(blocks[i], blocks.front());
    if (why != nullptr) return fmt::format("block {}: {}", i, why);
  }
  if (const char* why = refusal_of_ropes(blocks)) return why;
  const BlockWeights& first = blocks.front();
  const AttentionLayerSpec& shared = std::get<AttentionWeights>(first[0].f).spec;
  DecodeLayers decode{.layers = {},
                      .position = recording.row_inputs().positions,
                      .last = recording.row_inputs().last,
                      .slot = recording.places().slots,
                      .pages = recording.places().pages,
                      .heads = shared.heads,
                      .epsilon = recording.epsilon(),
                      .scale = scale_of_scores(shared),
                      .soft_cap = static_cast<float>(shared.soft_cap),
                      .multiplier = first[0].multiplier,
                      .function = std::get<FeedForwardWeights>(first[1].f).spec.function};
  for (const BlockWeights& block : blocks) decode.layers.push_back(decode_layer(recording, block));
  return decode;
}

}  // namespace clora
