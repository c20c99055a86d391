#include "tests/support/tiny_models.hpp"

#include <nlohmann/json.hpp>
#include <span>

#include "clora/lora/safetensors.hpp"
#include "clora/model/files/weights.hpp"
#include "clora/runtime/files/file.hpp"
#include "runtime/memory/half.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {
namespace {

ModelConfig common(Architecture architecture) {
  ModelConfig c;
  c.architecture = architecture;
  c.layers = 2;
  c.hidden_size = 24;
  c.intermediate_size = 40;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 6;
  c.vocabulary = 67;
  c.rms_norm_epsilon = 1e-5;
  c.max_positions = 256;
  return c;
}

// Norm weights are around 1, all others are small.
std::vector<float> values_of(const WeightNeed& need, std::uint32_t seed) {
  const auto count = static_cast<std::size_t>(need.shape.elements());
  std::vector<float> values = random_values(count, seed, 0.3F);
  if (need.name.find("norm") == std::string::npos) return values;
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
  ModelConfig llama = common(Architecture::llama);
  llama.head_dim = 10;
  ModelConfig qwen2 = common(Architecture::qwen2);
  qwen2.qkv_bias = true;
  qwen2.tied_head = true;
  ModelConfig qwen3 = common(Architecture::qwen3);
  qwen3.qk_norm = true;
  qwen3.head_dim = 8;
  qwen3.kv_heads = 1;
  ModelConfig mistral = common(Architecture::mistral);
  mistral.sliding_window = 5;
  return {{"Llama", llama}, {"Qwen2", qwen2}, {"Qwen3", qwen3}, {"Mistral", mistral}};
}

void write_tiny_model(const std::filesystem::path& folder, const ModelConfig& config, DType type,
                      std::uint32_t seed) {
  std::filesystem::create_directories(folder);
  const std::vector<WeightNeed> needs = weight_needs(config);
  std::vector<StoredTensor> tensors;
  for (const WeightNeed& need : needs) tensors.push_back({need.name, type, need.shape, {}});
  write_safetensors(folder / "model.safetensors", tensors, {}, [&](std::size_t i) {
    return stored(values_of(needs[i], seed * 1000 + static_cast<std::uint32_t>(i)), type);
  });
  const std::string json = to_hugging_face_json(config).dump(2);
  write_file_atomically(folder / "config.json", std::as_bytes(std::span(json)));
}

}  // namespace clora::test
