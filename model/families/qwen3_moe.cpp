// Qwen3 with experts (Qwen Team, 2025): Qwen3's blocks, with experts in place of the feed-forward
// in most layers.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/configuration/decoder_block.hpp"
#include "model/configuration/experts_layer.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/gguf_key_writing.hpp"
#include "model/configuration/hugging_face_config.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

SubLayerSpec qwen_experts(const ModelConfig& config, const ExpertsOptions& options,
                          std::string_view file) {
  return experts_layer(config, {"mlp", "gate_proj", "up_proj", "down_proj"}, options, file);
}

const ExpertsLayerSpec* experts_of(const BlockSpec& block) {
  return std::get_if<ExpertsLayerSpec>(&block[1].f);
}

// The numbers of mlp_only_layers: those without experts.
std::vector<std::int64_t> read_dense_layers(const HuggingFaceKeys& keys) {
  std::vector<std::int64_t> layers;
  const nlohmann::json* list = keys.find("mlp_only_layers");
  if (list == nullptr) return layers;
  for (const nlohmann::json& each : list->is_array() ? *list : nlohmann::json::array({*list})) {
    const auto number = json_integer(each);
    if (!number) keys.wrong_kind("mlp_only_layers", "a list of numbers of layers", *list);
    layers.push_back(*number);
  }
  return layers;
}

// For each layer, whether it has experts.
std::vector<bool> read_sparse_layers(const HuggingFaceKeys& keys, std::int64_t layers) {
  const std::vector<std::int64_t> dense = read_dense_layers(keys);
  const std::int64_t step = keys.find_integer("decoder_sparse_step").value_or(1);
  if (step < 1)
    fail(ErrorCode::invalid_file, "{}: decoder_sparse_step must be positive, got {}", keys.source(),
         step);
  std::vector<bool> sparse;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    sparse.push_back(std::ranges::find(dense, layer) == dense.end() && (layer + 1) % step == 0);
  }
  return sparse;
}

void from_hugging_face(const HuggingFaceKeys& keys, ModelConfig& config) {
  read_decoder(keys, {}, config);
  for (const char* key : {"mlp_bias", "use_qkv_bias"}) keys.refuse_if(keys.flag(key), key);
  const bool bias = keys.flag("attention_bias");
  DecoderBlockOptions options{.qkv_bias = bias, .o_bias = bias, .qk_norm = true};
  // In every layer: transformers reads neither max_window_layers nor layer_types here.
  keys.ignore({"sliding_window", "max_window_layers"});
  if (keys.flag("use_sliding_window")) options.window = read_window(keys);
  for (const bool slides : read_sliding_layers(keys, config.layers)) {
    keys.refuse_if(slides != options.window.has_value(), "layer_types");
  }
  options.function = read_gate_function(keys);
  ExpertsOptions experts = read_experts(keys);
  experts.intermediate_size = keys.integer("moe_intermediate_size");
  experts.normalises = keys.flag("norm_topk_prob");
  experts.function = options.function;
  const BlockSpec dense = decoder_block(config, options);
  BlockSpec sparse = dense;
  sparse[1] = qwen_experts(config, experts, keys.source());
  for (const bool is_sparse : read_sparse_layers(keys, config.layers)) {
    config.blocks.push_back(is_sparse ? sparse : dense);
  }
}

// The metadata tells neither norm_topk_prob, which llama.cpp takes as true, nor a window.
void from_gguf(const GgufKeys& keys, ModelConfig& config) {
  read_gguf_decoder(keys, config);
  ExpertsOptions experts = read_experts(keys);
  experts.intermediate_size = keys.integer("expert_feed_forward_length");
  experts.normalises = true;
  BlockSpec block = decoder_block(config, {.qk_norm = true});
  block[1] = qwen_experts(config, experts, keys.path());
  config.blocks.assign(static_cast<std::size_t>(config.layers), block);
}

void to_hugging_face(nlohmann::ordered_json& object, const ModelConfig& config) {
  const auto& attention = attention_of(config.blocks.front());
  object["attention_bias"] = attention.q.has_bias;
  object["use_sliding_window"] = attention.window.has_value();
  if (attention.window) object["sliding_window"] = *attention.window;
  auto& dense = object["mlp_only_layers"] = nlohmann::ordered_json::array();
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    const ExpertsLayerSpec* experts = experts_of(config.blocks[layer]);
    if (experts == nullptr) {
      dense.push_back(layer);
      continue;
    }
    write_experts(object, *experts, "num_experts");
    object["moe_intermediate_size"] = experts->down.front().inputs;
    object["norm_topk_prob"] = experts->normalises;
  }
}

void to_gguf(GgufKeyWriter& keys, const ModelConfig& config) {
  for (const BlockSpec& block : config.blocks) {
    const ExpertsLayerSpec* experts = experts_of(block);
    if (experts == nullptr) continue;
    keys.integer("expert_count", experts->experts());
    keys.integer("expert_used_count", experts->used);
    keys.integer("expert_feed_forward_length", experts->down.front().inputs);
  }
}

}  // namespace

extern const Family qwen3_moe_family;
const Family qwen3_moe_family{.name = "qwen3_moe",
                              .gguf_name = "qwen3moe",
                              .class_name = "Qwen3MoeForCausalLM",
                              .from_hugging_face = from_hugging_face,
                              .from_gguf = from_gguf,
                              .to_hugging_face = to_hugging_face,
                              .to_gguf = {.architecture = "qwen3moe", .write = to_gguf}};

}  // namespace clora
