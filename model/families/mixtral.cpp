// Mixtral (Jiang et al., 2024): Mistral's blocks with experts in place of the feed-forward. GGUF
// files of it say "llama", with a number of experts.
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/experts_layer.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/gguf_key_writing.hpp"
#include "model/configuration/hugging_face_config.hpp"

namespace clora {
namespace {

const ExpertsLayerSpec& experts_of(const ModelConfig& config) {
  return std::get<ExpertsLayerSpec>(config.blocks.front()[1].f);
}

void add_blocks(ModelConfig& config, const DecoderBlockOptions& block, ExpertsOptions experts,
                std::string_view file) {
  experts.intermediate_size = config.intermediate_size;
  experts.normalises = true;
  experts.function = block.function;
  BlockSpec spec = decoder_block(config, block);
  spec[1] = experts_layer(config, {"block_sparse_moe", "w1", "w3", "w2"}, experts, file);
  config.blocks.assign(static_cast<std::size_t>(config.layers), spec);
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder(keys, {.rope_base = 1e6}, config);
  for (const char* key : {"attention_bias", "mlp_bias", "use_qkv_bias"}) {
    keys.refuse_if(keys.flag(key), key);
  }
  keys.refuse_if(keys.find_number("router_jitter_noise").value_or(0) != 0, "router_jitter_noise");
  // transformers' default for this family is no window.
  const auto window = keys.find_integer("sliding_window");
  add_blocks(config, {.window = window, .function = read_gate_function(keys)}, read_experts(keys),
             keys.source());
}

void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  add_blocks(config, {.window = read_gguf_window(keys)}, read_experts(keys), keys.path());
}

bool is_gguf_of(const GgufKeys& keys) { return keys.find_integer("expert_count").value_or(0) > 0; }

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  const auto& attention = attention_of(config.blocks.front());
  if (attention.window) object["sliding_window"] = *attention.window;
  write_experts(object, experts_of(config), "num_local_experts");
}

void to_gguf(GgufKeyWriter& keys, const ModelConfig& config) {
  const ExpertsLayerSpec& experts = experts_of(config);
  keys.integer("expert_count", experts.experts());
  keys.integer("expert_used_count", experts.used);
}

}  // namespace

extern const Family mixtral_family;
const Family mixtral_family{.name = "mixtral",
                            .gguf_name = "llama",
                            .class_name = "MixtralForCausalLM",
                            .from_hugging_face = from_hugging_face,
                            .from_gguf = from_gguf,
                            .to_hugging_face = to_hugging_face,
                            .is_gguf_of = is_gguf_of,
                            .gguf_rope_layout = RopeLayout::interleaved,
                            .to_gguf = {.architecture = "llama", .write = to_gguf}};

}  // namespace clora
