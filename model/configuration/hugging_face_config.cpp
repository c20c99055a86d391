// Converts config.json to ModelConfig. A missing key takes the default of transformers if it is the
// same for every family that reads it here; else the key is required.
#include "model/configuration/hugging_face_config.hpp"

#include <limits>

#include "model/configuration/family.hpp"
#include "model/configuration/model_config_checks.hpp"
#include "model/configuration/quantisation_scheme.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

bool is_id(const json& value) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const std::optional<std::int64_t> number = json_integer(value);
  return number && *number >= -kMax && *number <= kMax;
}

std::vector<std::int32_t> read_ids(const HuggingFaceKeys& keys, std::string_view key) {
  const json* value = keys.find(key);
  if (value == nullptr) return {};
  std::vector<std::int32_t> ids;
  for (const json& id : value->is_array() ? *value : json::array({*value})) {
    if (!is_id(id)) keys.wrong_kind(key, "a 32-bit integer or a list of them", *value);
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

// Marks the key as read: how weights are stored is no part of a ModelConfig.
void check_quantisation(const HuggingFaceKeys& keys) {
  if (const auto scheme = keys.find_object("quantization_config")) read_quantisation(*scheme);
}

// The files of multimodal models hold their text model's configuration as one of several.
void check_text_only(const HuggingFaceKeys& keys) {
  const auto text = keys.find_object("text_config");
  if (!text) return;
  fail(ErrorCode::unsupported,
       "{}: '{}' is a multimodal model, and only text models are supported; store its text model "
       "('{}') on its own, or use a GGUF file, which holds only that",
       keys.source(), keys.text("model_type"), text->find_text("model_type").value_or("unknown"));
}

void check_switches(const HuggingFaceKeys& keys) {
  keys.refuse_if(!keys.find_flag("is_causal").value_or(true), "is_causal");
}

}  // namespace

GateFunction read_gate_function(const HuggingFaceKeys& keys, std::string_view key) {
  const std::string name = keys.find_text(key).value_or("silu");
  if (name == "silu" || name == "swish") return GateFunction::silu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return GateFunction::gelu;
  fail(ErrorCode::unsupported,
       "{}: the activation '{}' is not supported; it must be silu or gelu_pytorch_tanh",
       keys.source(), name);
}

void read_decoder_sizes(const HuggingFaceKeys& keys, const HuggingFaceDefaults& defaults,
                        ModelConfig& config) {
  check_switches(keys);
  config.layers = keys.integer("num_hidden_layers");
  config.hidden_size = keys.integer("hidden_size");
  config.intermediate_size =
      defaults.intermediate_size ? *defaults.intermediate_size : keys.integer("intermediate_size");
  config.heads = keys.integer("num_attention_heads");
  if (config.heads < 1)
    fail(ErrorCode::invalid_file, "{}: num_attention_heads must be positive", keys.source());
  config.kv_heads = defaults.requires_kv_heads
                        ? keys.integer("num_key_value_heads")
                        : keys.find_integer("num_key_value_heads").value_or(config.heads);
  config.head_dim = defaults.requires_head_dim
                        ? keys.integer("head_dim")
                        : keys.find_integer("head_dim").value_or(config.hidden_size / config.heads);
  config.vocabulary = keys.integer("vocab_size");
  config.norm_epsilon = keys.number(defaults.epsilon_key);
  config.max_positions = keys.integer("max_position_embeddings");
  config.tied_head = keys.find_flag("tie_word_embeddings").value_or(defaults.tied_head);
  config.final_norm = {{"model.norm", "output_norm"}, config.hidden_size};
  check_sizes(config, keys.source());  // first: the number of layers bounds lists of the file
}

void read_decoder(const HuggingFaceKeys& keys, const HuggingFaceDefaults& defaults,
                  ModelConfig& config) {
  read_decoder_sizes(keys, defaults, config);
  keys.refuse_if(keys.find_number("partial_rotary_factor").value_or(1) != 1,
                 "partial_rotary_factor");
  config.rope = read_hugging_face_rope(keys, defaults.rope_base, config.head_dim);
}

ModelConfig from_hugging_face(const json& object, std::string_view file) {
  const HuggingFaceKeys keys(object, file);
  check_text_only(keys);
  const Family& family = family_of(keys.text("model_type"), file);
  check_quantisation(keys);
  ModelConfig config;
  config.family = family.name;
  family.from_hugging_face(keys, config);
  if (const auto bos = read_ids(keys, "bos_token_id"); !bos.empty()) config.bos_id = bos.front();
  config.eos_ids = read_ids(keys, "eos_token_id");
  config.unread_keys = keys.unread_keys();
  check_sizes(config, file);
  return config;
}

}  // namespace clora
