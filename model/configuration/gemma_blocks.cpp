#include "model/configuration/gemma_blocks.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/configuration/hugging_face_config.hpp"

namespace clora {
namespace {

// Turns a block with norms before its sub-layers into one with norms after them as well.
void add_post_norms(BlockSpec& block) {
  const std::int64_t D = block[0].norm.width;
  block[0].post_norm = NormSpec{{"post_attention_layernorm", "post_attention_norm"}, D, true};
  block[1].norm = {{"pre_feedforward_layernorm", "ffn_norm"}, D, true};
  block[1].post_norm = NormSpec{{"post_feedforward_layernorm", "post_ffw_norm"}, D, true};
}

BlockSpec gemma_block(const ModelConfig& config, const GemmaBlocks& gemma, bool slides) {
  BlockSpec block = decoder_block(config, gemma.options);
  add_post_norms(block);
  block[0].norm.plus_one = true;
  auto& attention = attention_of(block);
  if (attention.q_norm) attention.q_norm->plus_one = attention.k_norm->plus_one = true;
  attention.scale = gemma.scale;
  attention.soft_cap = gemma.soft_cap;
  if (slides) attention.window = gemma.window;
  if (slides && gemma.local_rope) attention.rope = gemma.local_rope;
  return block;
}

}  // namespace

void add_gemma_blocks(ModelConfig& config, const GemmaBlocks& gemma) {
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.final_norm.plus_one = true;
  for (const bool slides : gemma.slides) {
    config.blocks.push_back(gemma_block(config, gemma, slides));
  }
}

std::vector<bool> slides_by_pattern(std::int64_t layers, std::int64_t pattern) {
  std::vector<bool> slides;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    slides.push_back(pattern < 1 || (layer + 1) % pattern != 0);
  }
  return slides;
}

GemmaBlocks read_gemma_blocks(const HuggingFaceKeys& keys, const ModelConfig& config,
                              std::int64_t pattern) {
  GemmaBlocks gemma;
  gemma.slides = read_sliding_layers(keys, config.layers);
  if (gemma.slides.empty()) gemma.slides = slides_by_pattern(config.layers, pattern);
  gemma.window = read_window(keys).value_or(0);
  gemma.scale = 1 / std::sqrt(keys.find_number("query_pre_attn_scalar").value_or(256));
  gemma.options.qkv_bias = gemma.options.o_bias = keys.flag("attention_bias");
  if (keys.find("hidden_activation") != nullptr) {
    gemma.options.function = read_gate_function(keys, "hidden_activation");
  }
  // Old files say gelu and mean hidden_activation; the cache is of transformers.
  keys.ignore({"hidden_act", "cache_implementation"});
  return gemma;
}

void write_gemma_blocks(nlohmann::ordered_json& object, const ModelConfig& config) {
  object.erase("hidden_act");
  object["hidden_activation"] = "gelu_pytorch_tanh";
  for (const BlockSpec& block : config.blocks) {
    const auto& attention = attention_of(block);
    const double scale = attention.scale.value();
    object["query_pre_attn_scalar"] = std::round(1e6 / (scale * scale)) / 1e6;
    object["layer_types"].push_back(attention.window ? "sliding_attention" : "full_attention");
    if (attention.window) object["sliding_window"] = *attention.window;
  }
}

std::int64_t gemma_window(const ModelConfig& config) {
  for (const AttentionLayerSpec* attention : attentions_of(config)) {
    if (attention->window) return *attention->window;
  }
  return 0;
}

}  // namespace clora
