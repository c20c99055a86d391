// Mistral 7B (Jiang et al., 2023): Llama's blocks with a sliding window in every layer. GGUF files
// of releases without a window say "llama".
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/hugging_face_config.hpp"

namespace clora {
namespace {

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder(keys, {}, config);
  for (const char* key : {"attention_bias", "mlp_bias", "use_qkv_bias"}) {
    keys.refuse_if(keys.flag(key), key);
  }
  keys.ignore({"use_sliding_window", "max_window_layers"});
  const std::optional<std::int64_t> window = read_window(keys);
  // transformers does not read the list for this family.
  for (const bool slides : read_sliding_layers(keys, config.layers)) {
    keys.refuse_if(slides != window.has_value(), "layer_types");
  }
  config.blocks = decoder_blocks(config, {.window = window, .function = read_gate_function(keys)});
}

void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  config.blocks = decoder_blocks(config, {.window = read_gguf_window(keys)});
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  const auto& attention = attention_of(config.blocks.front());
  if (attention.window) object["sliding_window"] = *attention.window;
}

}  // namespace

extern const Family mistral_family;
const Family mistral_family{.name = "mistral",
                            .gguf_name = "mistral",
                            .class_name = "MistralForCausalLM",
                            .from_hugging_face = from_hugging_face,
                            .from_gguf = from_gguf,
                            .to_hugging_face = to_hugging_face,
                            .gguf_rope_layout = RopeLayout::interleaved,
                            .to_gguf = {.architecture = "llama"}};

}  // namespace clora
