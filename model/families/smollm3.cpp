// SmolLM3 (Hugging Face, 2025): Llama's blocks, some of them without rope.
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::int64_t kInterval = 4;  // without a list, every fourth layer has no rope

void remove_rope(BlockSpec& block) { attention_of(block).rope.reset(); }

bool has_rope(const BlockSpec& block) { return attention_of(block).rope.has_value(); }

// Whether each layer has rope.
std::vector<bool> read_rope_layers(const HuggingFaceKeys& keys, std::int64_t layers) {
  const std::int64_t interval = keys.find_integer("no_rope_layer_interval").value_or(kInterval);
  const nlohmann::json* list = keys.find("no_rope_layers");
  if (list == nullptr && interval < 1) keys.refuse("no_rope_layer_interval");
  if (list != nullptr && (!list->is_array() || std::cmp_less(list->size(), layers)))
    keys.wrong_kind("no_rope_layers", fmt::format("a list of {} numbers", layers), *list);
  std::vector<bool> rope;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (list == nullptr) {
      rope.push_back((layer + 1) % interval != 0);
      continue;
    }
    const auto value = json_integer((*list)[static_cast<std::size_t>(layer)]);
    if (!value) keys.wrong_kind("no_rope_layers", "a list of 0 and 1", *list);
    rope.push_back(*value != 0);
  }
  return rope;
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder(keys, {.tied_head = true, .rope_base = 2e6}, config);
  keys.ignore({"max_window_layers"});
  const bool attention_bias = keys.flag("attention_bias");
  DecoderBlockOptions options{.qkv_bias = attention_bias,
                              .o_bias = attention_bias,
                              .feed_forward_bias = keys.flag("mlp_bias"),
                              .function = read_gate_function(keys)};
  std::optional<std::int64_t> window = keys.find_integer("sliding_window");
  if (!keys.flag("use_sliding_window")) window.reset();
  const std::vector<bool> rope = read_rope_layers(keys, config.layers);
  const std::vector<bool> listed = read_sliding_layers(keys, config.layers);
  for (std::size_t layer = 0; layer < rope.size(); ++layer) {
    const bool slides = listed.empty() ? !rope[layer] : listed[layer];
    keys.refuse_if(!listed.empty() && slides && !window, "layer_types");
    options.window = slides ? window : std::nullopt;
    config.blocks.push_back(decoder_block(config, options));
    if (!rope[layer]) remove_rope(config.blocks.back());
  }
}

// The metadata has no list: llama.cpp knows the interval.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  config.blocks = decoder_blocks(config);
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    if ((layer + 1) % kInterval == 0) remove_rope(config.blocks[layer]);
  }
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  const auto& attention = attention_of(config.blocks.front());
  object["attention_bias"] = attention.q.has_bias;
  object["mlp_bias"] = std::get<FeedForwardLayerSpec>(config.blocks.front()[1].f).up.has_bias;
  for (const BlockSpec& block : config.blocks) {
    const auto& window = attention_of(block).window;
    object["no_rope_layers"].push_back(has_rope(block) ? 1 : 0);
    object["layer_types"].push_back(window ? "sliding_attention" : "full_attention");
    if (!window) continue;
    object["sliding_window"] = *window;
    object["use_sliding_window"] = true;
  }
}

}  // namespace

extern const Family smollm3_family;
const Family smollm3_family{.name = "smollm3",
                            .gguf_name = "smollm3",
                            .class_name = "SmolLM3ForCausalLM",
                            .from_hugging_face = from_hugging_face,
                            .from_gguf = from_gguf,
                            .to_hugging_face = to_hugging_face,
                            .gguf_rope_layout = RopeLayout::interleaved,
                            .to_gguf = {.architecture = "smollm3"}};

}  // namespace clora
