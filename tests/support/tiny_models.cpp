#include "tests/support/tiny_models.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "clora/lora/safetensors.hpp"
#include "clora/model/weights/weights.hpp"
#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "runtime/memory/half.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {
namespace {

ModelConfig config_of(const char* family, const nlohmann::json& keys) {
  nlohmann::json object{{"model_type", family},
                        {"num_hidden_layers", 2},
                        {"hidden_size", 24},
                        {"intermediate_size", 40},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 2},
                        {"head_dim", 6},
                        {"vocab_size", 67},
                        {"rms_norm_eps", 1e-5},
                        {"max_position_embeddings", 256}};
  object.update(keys);
  return from_hugging_face(object, "a tiny model");
}

// Norm weights are around 1, all others are small.
std::vector<float> values_of(const WeightNeed& need, std::uint32_t seed) {
  const auto count = static_cast<std::size_t>(need.shape.elements());
  std::vector<float> values = random_values(count, seed, 0.3F);
  if (need.name.find("norm") == std::string::npos || need.plus_one) return values;
  for (float& value : values) value += 1;
  return values;
}

std::vector<std::byte> stored(const std::vector<float>& values, DType type) {
  if (type == DType::f32) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::uint16_t> halves;
  for (const float value : values) halves.push_back(float_to_bf16(value));
  const auto bytes = std::as_bytes(std::span(halves));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<TinyModel> tiny_models() {
  return {
      {"Llama", config_of("llama", {{"head_dim", 10}})},
      {"Qwen2", config_of("qwen2", {{"tie_word_embeddings", true}})},
      {"Qwen3", config_of("qwen3", {{"head_dim", 8}, {"num_key_value_heads", 1}})},
      {"Mistral", config_of("mistral", {{"sliding_window", 5}})},
      {"SmolLM3", config_of("smollm3", {{"no_rope_layers", {1, 0}}})},
      {"Granite", config_of("granite", {{"embedding_multiplier", 1.5},
                                        {"attention_multiplier", 0.3},
                                        {"residual_multiplier", 0.7},
                                        {"logits_scaling", 2}})},
      {"Gemma2", config_of("gemma2", {{"layer_types", {"sliding_attention", "full_attention"}},
                                      {"sliding_window", 5},
                                      {"query_pre_attn_scalar", 9},
                                      {"attn_logit_softcapping", 0.8},
                                      {"final_logit_softcapping", 1.5}})},
      {"Gemma3", config_of("gemma3_text", {{"layer_types", {"sliding_attention", "full_attention"}},
                                           {"sliding_window", 5},
                                           {"query_pre_attn_scalar", 9},
                                           {"rope_local_base_freq", 100}})},
      {"Ministral3", config_of("ministral3", {{"rope_parameters",
                                               {{"rope_type", "yarn"},
                                                {"rope_theta", 50.0},
                                                {"factor", 4.0},
                                                {"original_max_position_embeddings", 3},
                                                {"llama_4_scaling_beta", 0.4}}}})},
      {"Phi3", config_of("phi3", {{"partial_rotary_factor", 0.75}})},
      {"Qwen3Moe", config_of("qwen3_moe", {{"head_dim", 8},
                                           {"num_experts", 5},
                                           {"num_experts_per_tok", 2},
                                           {"moe_intermediate_size", 12},
                                           {"norm_topk_prob", false},
                                           {"mlp_only_layers", {0}}})},
      {"Mixtral", config_of("mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 3}})},
      {"Lfm2", config_of("lfm2", {{"norm_eps", 1e-5},
                                  {"layer_types", {"conv", "full_attention"}},
                                  {"conv_bias", true},
                                  {"block_auto_adjust_ff_dim", false}})},
      {"Qwen3_5", config_of("qwen3_5_text",
                            {// Outputs of the delta rule are small: their norm divides by them.
                             {"rms_norm_eps", 1e-2},
                             {"layer_types", {"linear_attention", "full_attention"}},
                             {"head_dim", 8},
                             {"linear_num_key_heads", 2},
                             {"linear_num_value_heads", 4},
                             {"linear_key_head_dim", 5},
                             {"linear_value_head_dim", 6},
                             {"partial_rotary_factor", 0.5}})}};
}

ModelConfig tiny_config(std::string_view name) {
  const std::vector<TinyModel> models = tiny_models();
  return std::ranges::find(models, name, &TinyModel::name)->config;
}

void write_tiny_model(const std::filesystem::path& folder, const ModelConfig& config, DType type,
                      std::uint32_t seed) {
  std::filesystem::create_directories(folder);
  const std::string json = json_text(to_hugging_face_json(config), 2);
  // The caller may have changed sizes of `config`, but not its blocks.
  const std::vector<WeightNeed> needs =
      weight_needs(from_hugging_face(parse_json(json, "config.json"), "config.json"));
  std::vector<StoredTensor> tensors;
  for (const WeightNeed& need : needs) tensors.push_back({need.name, type, need.shape, {}});
  write_safetensors(folder / "model.safetensors", tensors, {}, [&](std::size_t i) {
    return stored(values_of(needs[i], seed * 1000 + static_cast<std::uint32_t>(i)), type);
  });
  write_file_atomically(folder / "config.json", std::as_bytes(std::span(json)));
}

}  // namespace clora::test
