// Gemma 3, the text model (Gemma Team, 2025): norms of w + 1 before and after each sub-layer and of
// each query and key head, geglu, embeddings times sqrt(D), and sliding windows in five of six
// layers, with a rope of their own.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::int64_t kPattern = 6;  // of every six layers, the last one has no window
constexpr double kGlobalBase = 1e6, kLocalBase = 1e4;

struct Gemma3 {
  std::vector<bool> slides;  // each layer
  std::int64_t window = 0;
  RopeSpec local_rope;  // of layers with a window; that of the others is the configuration's
  double scale = 1;
  DecoderBlockOptions options = {.qk_norm = true, .function = GateFunction::gelu};
};

// Turns a block with norms before its sub-layers into one with norms after them as well.
void add_post_norms(BlockSpec& block) {
  const std::int64_t D = block[0].norm.width;
  block[0].post_norm = NormSpec{{"post_attention_layernorm", "post_attention_norm"}, D, true};
  block[1].norm = {{"pre_feedforward_layernorm", "ffn_norm"}, D, true};
  block[1].post_norm = NormSpec{{"post_feedforward_layernorm", "post_ffw_norm"}, D, true};
}

void add_blocks(ModelConfig& config, const Gemma3& gemma) {
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.final_norm.plus_one = true;
  for (const bool slides : gemma.slides) {
    BlockSpec block = decoder_block(config, gemma.options);
    add_post_norms(block);
    block[0].norm.plus_one = true;
    auto& attention = std::get<AttentionLayerSpec>(block[0].f);
    attention.q_norm->plus_one = attention.k_norm->plus_one = true;
    attention.scale = gemma.scale;
    if (slides) {
      attention.window = gemma.window;
      attention.rope = gemma.local_rope;
    }
    config.blocks.push_back(std::move(block));
  }
}

std::vector<bool> by_pattern(std::int64_t layers, std::int64_t pattern) {
  std::vector<bool> slides;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    slides.push_back(pattern < 1 || (layer + 1) % pattern != 0);
  }
  return slides;
}

// Recent files have a dictionary of two ropes; in older ones rope_scaling is that of layers without
// a window.
void read_ropes(const HuggingFaceKeys& keys, ModelConfig& config, Gemma3& gemma) {
  const std::int64_t width = config.head_dim;
  const double local = keys.find_number("rope_local_base_freq").value_or(kLocalBase);
  gemma.local_rope = {.base = local, .width = width, .scaling = {}};
  const auto both = keys.find_object("rope_parameters");
  const auto global_rope = both ? both->find_object("full_attention") : std::nullopt;
  const auto local_rope = both ? both->find_object("sliding_attention") : std::nullopt;
  if (!global_rope && !local_rope) {
    config.rope = read_hugging_face_rope(keys, kGlobalBase, width);
    return;
  }
  keys.ignore({"rope_theta", "original_max_position_embeddings"});
  config.rope = {.base = kGlobalBase, .width = width, .scaling = {}};
  if (global_rope) config.rope = read_rope_dictionary(keys, *global_rope, kGlobalBase, width);
  if (local_rope) gemma.local_rope = read_rope_dictionary(keys, *local_rope, local, width);
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder_sizes(keys, {.requires_head_dim = true, .tied_head = true}, config);
  Gemma3 gemma;
  read_ropes(keys, config, gemma);
  gemma.slides = read_sliding_layers(keys, config.layers);
  const std::int64_t pattern = keys.find_integer("sliding_window_pattern").value_or(kPattern);
  keys.ignore({"_sliding_window_pattern"});  // transformers writes it beside layer_types
  if (gemma.slides.empty()) gemma.slides = by_pattern(config.layers, pattern);
  gemma.window = read_window(keys).value_or(0);
  gemma.scale = 1 / std::sqrt(keys.find_number("query_pre_attn_scalar").value_or(256));
  gemma.options.qkv_bias = gemma.options.o_bias = keys.flag("attention_bias");
  gemma.options.function = keys.find("hidden_activation") == nullptr
                               ? GateFunction::gelu
                               : read_gate_function(keys, "hidden_activation");
  keys.ignore({"hidden_act"});  // old files say gelu and mean hidden_activation
  add_blocks(config, gemma);
}

// The metadata has neither the pattern nor, in older files, the base of layers with a window:
// llama.cpp knows them. It also knows the scale by the number of layers: 62 are those of 27B.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  constexpr std::int64_t kLayersOf27B = 62;
  const std::int64_t width =
      config.layers == kLayersOf27B ? config.hidden_size / config.heads : config.head_dim;
  const double local = keys.find_number("rope.freq_base_swa").value_or(kLocalBase);
  const std::int64_t pattern =
      keys.find_integer("attention.sliding_window_pattern").value_or(kPattern);
  add_blocks(config, {.slides = by_pattern(config.layers, pattern),
                      .window = keys.integer("attention.sliding_window"),
                      .local_rope = {.base = local, .width = config.head_dim, .scaling = {}},
                      .scale = 1 / std::sqrt(static_cast<double>(width))});
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  object.erase("hidden_act");
  object["hidden_activation"] = "gelu_pytorch_tanh";
  for (const BlockSpec& block : config.blocks) {
    const auto& attention = std::get<AttentionLayerSpec>(block.front().f);
    const double scale = attention.scale.value();
    object["query_pre_attn_scalar"] = std::round(1e6 / (scale * scale)) / 1e6;
    object["layer_types"].push_back(attention.window ? "sliding_attention" : "full_attention");
    if (!attention.window) continue;
    object["sliding_window"] = *attention.window;
    object["rope_local_base_freq"] = attention.rope->base;
  }
}

}  // namespace

extern const Family gemma3_text_family;
const Family gemma3_text_family{.name = "gemma3_text",
                                .gguf_name = "gemma3",
                                .class_name = "Gemma3ForCausalLM",
                                .from_hugging_face = from_hugging_face,
                                .from_gguf = from_gguf,
                                .to_hugging_face = to_hugging_face};

}  // namespace clora
