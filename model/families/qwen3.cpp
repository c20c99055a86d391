// Qwen3, dense (Qwen Team, 2025): Llama's blocks with an RMS norm of each query and key head.
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/qwen_windows.hpp"

namespace clora {
namespace {

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder(keys, {.requires_head_dim = true}, config);
  for (const char* key : {"mlp_bias", "use_qkv_bias"}) keys.refuse_if(keys.flag(key), key);
  const bool bias = keys.flag("attention_bias");
  const GateFunction function = read_gate_function(keys);
  for (const auto& window : read_qwen_windows(keys, config.layers)) {
    config.blocks.push_back(decoder_block(config, {.qkv_bias = bias,
                                                   .o_bias = bias,
                                                   .qk_norm = true,
                                                   .window = window,
                                                   .function = function}));
  }
}

// llama.cpp reads no window for this architecture.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  config.blocks = decoder_blocks(config, {.qk_norm = true});
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  object["attention_bias"] = attention_of(config.blocks.front()).q.has_bias;
  write_qwen_windows(object, config);
}

}  // namespace

extern const Family qwen3_family;
const Family qwen3_family{.name = "qwen3",
                          .gguf_name = "qwen3",
                          .class_name = "Qwen3ForCausalLM",
                          .from_hugging_face = from_hugging_face,
                          .from_gguf = from_gguf,
                          .to_hugging_face = to_hugging_face,
                          .to_gguf = {.architecture = "qwen3"}};

}  // namespace clora
