// Qwen2 and Qwen2.5 (Qwen Team, 2024): Llama's blocks with biases of q, k and v.
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/qwen_windows.hpp"

namespace clora {
namespace {

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  keys.ignore({"attention_bias"});  // these biases always exist
  read_decoder(keys, {}, config);
  keys.refuse_if(keys.flag("mlp_bias"), "mlp_bias");
  keys.refuse_if(!keys.find_flag("use_qkv_bias").value_or(true), "use_qkv_bias");
  const GateFunction function = read_gate_function(keys);
  for (const auto& window : read_qwen_windows(keys, config.layers)) {
    config.blocks.push_back(
        decoder_block(config, {.qkv_bias = true, .window = window, .function = function}));
  }
}

// llama.cpp reads no window for this architecture.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  config.blocks = decoder_blocks(config, {.qkv_bias = true});
}

}  // namespace

extern const Family qwen2_family;
const Family qwen2_family{.name = "qwen2",
                          .gguf_name = "qwen2",
                          .class_name = "Qwen2ForCausalLM",
                          .from_hugging_face = from_hugging_face,
                          .from_gguf = from_gguf,
                          .to_hugging_face = write_qwen_windows,
                          .to_gguf = {.architecture = "qwen2"}};

}  // namespace clora
