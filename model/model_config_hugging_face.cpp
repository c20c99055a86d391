// config.json to ModelConfig and back. Keys that are missing take the value that transformers gives
// them, where it is the same for every architecture here; else they are required.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/model_config.hpp"
#include "model/model_config_checks.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

using nlohmann::json;

// Reads the keys of one JSON object; its messages name the file and the key.
class Keys {
 public:
  Keys(const json& object, std::string_view file) : object_(object), file_(file) {
    if (!object.is_object()) fail(ErrorCode::invalid_file, "{}: must be a JSON object", file);
  }

  std::string_view file() const noexcept { return file_; }

  // nullptr for a key that is absent or null.
  const json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  std::int64_t integer(const char* key) const { return *required(key, find_integer(key)); }
  double number(const char* key) const { return *required(key, find_number(key)); }
  std::string text(const char* key) const { return *required(key, find_text(key)); }

  std::optional<std::int64_t> find_integer(const char* key) const {
    return find_as<std::int64_t>(key, &json::is_number_integer, "a whole number");
  }
  std::optional<double> find_number(const char* key) const {
    return find_as<double>(key, &json::is_number, "a number");
  }
  std::optional<std::string> find_text(const char* key) const {
    return find_as<std::string>(key, &json::is_string, "a text");
  }
  std::optional<bool> find_flag(const char* key) const {
    return find_as<bool>(key, &json::is_boolean, "true or false");
  }

 private:
  template <class T>
  std::optional<T> find_as(const char* key, bool (json::*is_kind)() const noexcept,
                           std::string_view kind) const {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!(value->*is_kind)())
      fail(ErrorCode::invalid_file, "{}: {} must be {}, got {}", file_, key, kind, value->dump());
    return value->get<T>();
  }

  template <class T>
  std::optional<T> required(const char* key, std::optional<T> value) const {
    if (!value) fail(ErrorCode::invalid_file, "{}: the key {} is missing", file_, key);
    return value;
  }

  const json& object_;
  std::string_view file_;
};

void refuse_unless(bool supported, const Keys& keys, std::string_view what) {
  if (!supported) fail(ErrorCode::unsupported, "{}: {} is not supported", keys.file(), what);
}

// Everything that would change the computation and is not done here.
void refuse_what_is_not_done(const Keys& keys, Architecture architecture) {
  const std::string activation = keys.find_text("hidden_act").value_or("silu");
  refuse_unless(activation == "silu", keys, fmt::format("the activation '{}'", activation));
  refuse_unless(keys.find_number("partial_rotary_factor").value_or(1) == 1, keys,
                "partial_rotary_factor");
  // In Qwen2's files attention_bias says nothing: the q, k and v biases are always there.
  const bool bias = keys.find_flag("attention_bias").value_or(false);
  refuse_unless(!bias || architecture == Architecture::qwen2, keys, "attention_bias");
  refuse_unless(!keys.find_flag("mlp_bias").value_or(false), keys, "mlp_bias");
  if (const json* quantisation = keys.find("quantization_config")) {
    const Keys scheme(*quantisation, keys.file());
    refuse_unless(false, keys,
                  fmt::format("the quantisation '{}' (use unquantised weights or a GGUF file)",
                              scheme.find_text("quant_method").value_or("unknown")));
  }
}

RopeScaling read_rope_scaling(const Keys& keys) {
  RopeScaling scaling;
  // "type" is the older name of "rope_type"; models with both repeat themselves.
  const std::string type =
      keys.find_text("rope_type").value_or(keys.find_text("type").value_or("default"));
  if (type == "default") return scaling;
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::linear;
    scaling.factor = keys.number("factor");
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::llama3;
    scaling.factor = keys.number("factor");
    scaling.low_freq_factor = keys.number("low_freq_factor");
    scaling.high_freq_factor = keys.number("high_freq_factor");
    scaling.original_max_positions = keys.integer("original_max_position_embeddings");
    if (!(scaling.high_freq_factor > scaling.low_freq_factor) || scaling.original_max_positions < 1)
      fail(ErrorCode::invalid_file, "{}: the llama3 rope scaling contradicts itself", keys.file());
  } else {
    refuse_unless(false, keys, fmt::format("the rope type '{}'", type));
  }
  return scaling;
}

// Newer files hold base and scaling together in rope_parameters.
void read_rope(const Keys& keys, ModelConfig& config) {
  if (const json* parameters = keys.find("rope_parameters")) {
    const Keys rope(*parameters, keys.file());
    config.rope_base = rope.find_number("rope_theta").value_or(config.rope_base);
    config.rope_scaling = read_rope_scaling(rope);
    return;
  }
  config.rope_base = keys.find_number("rope_theta").value_or(config.rope_base);
  if (const json* scaling = keys.find("rope_scaling"))
    config.rope_scaling = read_rope_scaling(Keys(*scaling, keys.file()));
}

// Mistral: in every layer. Qwen: only if switched on, and then only from max_window_layers on.
std::optional<std::int64_t> read_sliding_window(const Keys& keys, const ModelConfig& config) {
  const auto window = keys.find_integer("sliding_window");
  if (config.architecture == Architecture::mistral) return window;
  const bool used = keys.find_flag("use_sliding_window").value_or(false);
  if (config.architecture == Architecture::llama || !used || !window) return std::nullopt;
  const std::int64_t first = keys.find_integer("max_window_layers").value_or(0);
  if (first >= config.layers) return std::nullopt;
  refuse_unless(first <= 0, keys, "a sliding window in some of the layers");
  return window;
}

std::vector<std::int32_t> read_ids(const Keys& keys, const char* key) {
  const json* value = keys.find(key);
  if (value == nullptr) return {};
  std::vector<std::int32_t> ids;
  for (const json& id : value->is_array() ? *value : json::array({*value})) {
    if (!id.is_number_integer())
      fail(ErrorCode::invalid_file, "{}: {} must be a whole number or a list of them, got {}",
           keys.file(), key, value->dump());
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

// The rope parameters that Llama 3.1 and 3.2 were published with, if they give `factors`.
std::optional<RopeScaling> published_llama3(const ModelConfig& config) {
  ModelConfig candidate = config;
  candidate.rope_scaling = {};
  candidate.rope_scaling.kind = RopeScaling::Kind::llama3;
  candidate.rope_scaling.factor = std::ranges::max(config.rope_scaling.factors);
  const auto wanted = rope_frequencies(config);
  const auto given = rope_frequencies(candidate);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (std::abs(given[i] - wanted[i]) > 1e-5 * wanted[i]) return std::nullopt;
  return candidate.rope_scaling;
}

nlohmann::ordered_json rope_scaling_json(const ModelConfig& config) {
  RopeScaling scaling = config.rope_scaling;
  if (scaling.kind == RopeScaling::Kind::factors) {
    const auto known = published_llama3(config);
    if (!known)
      fail(ErrorCode::unsupported,
           "{}: its rope_freqs.weight follows no rope type that config.json knows", config.name);
    scaling = *known;
  }
  if (scaling.kind == RopeScaling::Kind::none) return nullptr;
  if (scaling.kind == RopeScaling::Kind::linear)
    return {{"rope_type", "linear"}, {"factor", scaling.factor}};
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"original_max_position_embeddings", scaling.original_max_positions}};
}

std::string_view class_name(Architecture architecture) {
  constexpr std::array<std::string_view, 4> kNames{"LlamaForCausalLM", "Qwen2ForCausalLM",
                                                   "Qwen3ForCausalLM", "MistralForCausalLM"};
  return kNames.at(static_cast<std::size_t>(architecture));
}

}  // namespace

ModelConfig from_hugging_face(const json& object, std::string_view file) {
  const Keys keys(object, file);
  ModelConfig config;
  config.architecture = architecture_of(keys.text("model_type"), file);
  refuse_what_is_not_done(keys, config.architecture);
  config.layers = keys.integer("num_hidden_layers");
  config.model_width = keys.integer("hidden_size");
  config.feed_forward_width = keys.integer("intermediate_size");
  config.heads = keys.integer("num_attention_heads");
  if (config.heads < 1)
    fail(ErrorCode::invalid_file, "{}: num_attention_heads must be positive", file);
  // Only Llama has a default that depends on nothing else.
  config.kv_heads = config.architecture == Architecture::llama
                        ? keys.find_integer("num_key_value_heads").value_or(config.heads)
                        : keys.integer("num_key_value_heads");
  config.head_width =
      config.architecture == Architecture::qwen3
          ? keys.integer("head_dim")
          : keys.find_integer("head_dim").value_or(config.model_width / config.heads);
  config.vocabulary = keys.integer("vocab_size");
  config.rms_norm_epsilon = keys.number("rms_norm_eps");
  config.max_positions = keys.integer("max_position_embeddings");
  config.tied_head = keys.find_flag("tie_word_embeddings").value_or(false);
  config.qkv_bias = config.architecture == Architecture::qwen2;
  config.qk_norm = config.architecture == Architecture::qwen3;
  read_rope(keys, config);
  config.sliding_window = read_sliding_window(keys, config);
  if (const auto bos = read_ids(keys, "bos_token_id"); !bos.empty()) config.bos_id = bos.front();
  config.eos_ids = read_ids(keys, "eos_token_id");
  check_sizes(config, file);
  return config;
}

nlohmann::ordered_json to_hugging_face_json(const ModelConfig& config) {
  nlohmann::ordered_json object{
      {"architectures", {class_name(config.architecture)}},
      {"model_type", name_of(config.architecture)},
      {"hidden_act", "silu"},
      {"hidden_size", config.model_width},
      {"intermediate_size", config.feed_forward_width},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_width},
      {"vocab_size", config.vocabulary},
      {"max_position_embeddings", config.max_positions},
      {"rms_norm_eps", config.rms_norm_epsilon},
      {"rope_theta", config.rope_base},
      {"rope_scaling", rope_scaling_json(config)},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"tie_word_embeddings", config.tied_head},
  };
  if (config.sliding_window)
    object["sliding_window"] = *config.sliding_window;
  else
    object["sliding_window"] = nullptr;
  const bool is_qwen =
      config.architecture == Architecture::qwen2 || config.architecture == Architecture::qwen3;
  if (is_qwen) {
    object["use_sliding_window"] = config.sliding_window.has_value();
    object["max_window_layers"] = config.sliding_window ? 0 : config.layers;
  }
  if (config.bos_id) object["bos_token_id"] = *config.bos_id;
  if (config.eos_ids.size() == 1) object["eos_token_id"] = config.eos_ids.front();
  if (config.eos_ids.size() > 1) object["eos_token_id"] = config.eos_ids;
  return object;
}

}  // namespace clora
