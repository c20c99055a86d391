// Llama 1 to 3 (Touvron et al., 2023; Grattafiori et al., 2024), and what has its blocks: SmolLM2,
// TinyLlama, Yi. llama.cpp's files of Mistral 7B also say "llama".
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"

namespace clora {
namespace {

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder(keys, {.requires_kv_heads = false}, config);
  keys.refuse_if(keys.flag("use_qkv_bias"), "use_qkv_bias");
  keys.ignore({"sliding_window", "use_sliding_window", "max_window_layers"});
  for (const bool slides : read_sliding_layers(keys, config.layers)) {
    keys.refuse_if(slides, "layer_types");
  }
  const bool attention_bias = keys.flag("attention_bias");
  config.blocks = decoder_blocks(config, {.qkv_bias = attention_bias,
                                          .o_bias = attention_bias,
                                          .feed_forward_bias = keys.flag("mlp_bias"),
                                          .function = read_gate_function(keys)});
}

// The metadata does not tell which layers have biases.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  const auto has = [&](const char* name) { return keys.file().find_tensor(name) != nullptr; };
  config.blocks = decoder_blocks(config, {.qkv_bias = has("blk.0.attn_q.bias"),
                                          .o_bias = has("blk.0.attn_output.bias"),
                                          .feed_forward_bias = has("blk.0.ffn_up.bias")});
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  const BlockSpec& block = config.blocks.front();
  object["attention_bias"] = attention_of(block).q.has_bias;
  if (std::get<FeedForwardLayerSpec>(block[1].f).up.has_bias) object["mlp_bias"] = true;
}

}  // namespace

extern const Family llama_family;
const Family llama_family{.name = "llama",
                          .gguf_name = "llama",
                          .class_name = "LlamaForCausalLM",
                          .from_hugging_face = from_hugging_face,
                          .from_gguf = from_gguf,
                          .to_hugging_face = to_hugging_face,
                          .gguf_rope_layout = RopeLayout::interleaved,
                          .to_gguf = {.architecture = "llama"}};

}  // namespace clora
