// Converts config.json to ModelConfig. A missing key takes the default of transformers if it is the
// same for every architecture here; else the key is required.
#include <limits>

#include "model/files/model_config_checks.hpp"
#include "model/files/model_config_hugging_face.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

bool is_id(const json& value) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (value.is_number_unsigned()) return value.get<std::uint64_t>() <= std::uint64_t{kMax};
  if (!value.is_number_integer()) return false;
  const auto number = value.get<std::int64_t>();
  return number >= -kMax && number <= kMax;
}

std::vector<std::int32_t> read_ids(const JsonKeys& keys, std::string_view key) {
  const json* value = keys.find(key);
  if (value == nullptr) return {};
  std::vector<std::int32_t> ids;
  for (const json& id : value->is_array() ? *value : json::array({*value})) {
    if (!is_id(id)) keys.wrong_kind(key, "a 32-bit integer or a list of them", *value);
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

ModelConfig from_hugging_face(const json& object, std::string_view file) {
  const JsonKeys keys(object, file);
  ModelConfig config;
  config.architecture = architecture_of(keys.text("model_type"), file);
  check_hugging_face_keys(keys, config);
  config.layers = keys.integer("num_hidden_layers");
  config.hidden_size = keys.integer("hidden_size");
  config.intermediate_size = keys.integer("intermediate_size");
  config.heads = keys.integer("num_attention_heads");
  if (config.heads < 1)
    fail(ErrorCode::invalid_file, "{}: num_attention_heads must be positive", file);
  // Only Llama has a default that is independent of other settings.
  config.kv_heads = config.architecture == Architecture::llama
                        ? keys.find_integer("num_key_value_heads").value_or(config.heads)
                        : keys.integer("num_key_value_heads");
  config.head_dim = config.architecture == Architecture::qwen3
                        ? keys.integer("head_dim")
                        : keys.find_integer("head_dim").value_or(config.hidden_size / config.heads);
  config.vocabulary = keys.integer("vocab_size");
  config.rms_norm_epsilon = keys.number("rms_norm_eps");
  config.max_positions = keys.integer("max_position_embeddings");
  config.tied_head = keys.find_flag("tie_word_embeddings").value_or(false);
  config.qkv_bias = config.architecture == Architecture::qwen2;
  config.qk_norm = config.architecture == Architecture::qwen3;
  check_sizes(config, file);  // first: the number of layers bounds the following lists
  read_hugging_face_rope(keys, config);
  read_hugging_face_window(keys, config);
  if (const auto bos = read_ids(keys, "bos_token_id"); !bos.empty()) config.bos_id = bos.front();
  config.eos_ids = read_ids(keys, "eos_token_id");
  check_sizes(config, file);
  return config;
}

}  // namespace clora
