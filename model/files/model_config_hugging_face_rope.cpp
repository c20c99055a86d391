// config.json: rotary embedding and sliding window.
#include <algorithm>
#include <array>

#include "model/files/model_config_hugging_face.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

// The content of a rope dictionary: its base, if it has one, and its scaling.
struct Rope {
  std::optional<double> base;
  RopeScaling scaling;
  bool operator==(const Rope&) const = default;
};

// "type" is the older name of "rope_type"; files with both store the same value twice.
std::string rope_type_of(const JsonKeys& keys) {
  const auto newer = keys.find_text("rope_type");
  const auto older = keys.find_text("type");
  if (newer && older && *newer != *older)
    fail(ErrorCode::invalid_file, "{}: {} is '{}', but {} is '{}'", keys.source(),
         keys.name_of_key("rope_type"), *newer, keys.name_of_key("type"), *older);
  return newer.value_or(older.value_or("default"));
}

// Every other key of the dictionary (attention_factor, mscale, beta_fast, mrope_section, ...)
// belongs to another rope type, or would change this one.
void refuse_other_rope_keys(const JsonKeys& keys, std::string_view type) {
  constexpr std::array<std::string_view, 5> kAlways{"type", "rope_type", "rope_theta", "finetuned",
                                                    "original_max_position_embeddings"};
  for (const auto& [key, value] : keys.value().items()) {
    const bool is_scale = key == "factor";
    const bool is_llama3 = is_scale || key == "low_freq_factor" || key == "high_freq_factor";
    const bool is_one = value.is_number() && value.get<double>() == 1;
    const bool may_be_one =
        key == "attention_factor" || key == "partial_rotary_factor" || key == "factor";
    if (value.is_null() || std::ranges::find(kAlways, key) != kAlways.end()) continue;
    if ((type == "linear" && is_scale) || (type == "llama3" && is_llama3)) continue;
    if (may_be_one && is_one) continue;
    fail(ErrorCode::unsupported, "{}: {} = {} is not supported with the rope type '{}'",
         keys.source(), keys.name_of_key(key), json_excerpt(value), type);
  }
}

RopeScaling llama3_scaling(const JsonKeys& keys) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::llama3;
  scaling.factor = keys.number("factor");
  scaling.low_freq_factor = keys.number("low_freq_factor");
  scaling.high_freq_factor = keys.number("high_freq_factor");
  scaling.original_max_positions = keys.integer("original_max_position_embeddings");
  if (!(scaling.high_freq_factor > scaling.low_freq_factor) || scaling.original_max_positions < 1)
    fail(ErrorCode::invalid_file, "{}: the llama3 rope scaling is inconsistent", keys.source());
  return scaling;
}

Rope read_rope(const JsonKeys& keys) {
  const std::string type = rope_type_of(keys);
  if (type != "default" && type != "linear" && type != "llama3")
    fail(ErrorCode::unsupported,
         "{}: the rope type '{}' is not supported; supported types: default, linear, llama3",
         keys.source(), type);
  refuse_other_rope_keys(keys, type);
  Rope rope{.base = keys.find_number("rope_theta"), .scaling = {}};
  if (type == "llama3") rope.scaling = llama3_scaling(keys);
  if (type == "linear") {
    rope.scaling.kind = RopeScaling::Kind::linear;
    rope.scaling.factor = keys.number("factor");
  }
  return rope;
}

std::optional<Rope> find_rope(const JsonKeys& keys, std::string_view key) {
  const auto dictionary = keys.find_object(key);
  if (!dictionary || dictionary->value().empty()) return std::nullopt;
  return read_rope(*dictionary);
}

// transformers prefers this top-level key to the one in the dictionary.
void check_original_positions(const JsonKeys& keys, const RopeScaling& scaling) {
  const auto original = keys.find_integer("original_max_position_embeddings");
  if (!original || scaling.kind != RopeScaling::Kind::llama3) return;
  if (*original != scaling.original_max_positions)
    fail(ErrorCode::invalid_file,
         "{}: original_max_position_embeddings is {}, but that of the rope scaling is {}",
         keys.source(), *original, scaling.original_max_positions);
}

// Returns the types of the layers, each "full_attention" or "sliding_attention"; nullopt if the
// file has no such list.
std::optional<std::vector<std::string>> find_layer_types(const JsonKeys& keys,
                                                         const ModelConfig& config) {
  const auto types = keys.find_texts("layer_types");
  if (!types) return std::nullopt;
  if (std::cmp_not_equal(types->size(), config.layers))
    fail(ErrorCode::invalid_file, "{}: layer_types must name {} layers, got {}", keys.source(),
         config.layers, types->size());
  for (const std::string& type : *types)
    if (type != "full_attention" && type != "sliding_attention")
      fail(ErrorCode::unsupported,
           "{}: the layer type '{}' is not supported; supported types: full_attention, "
           "sliding_attention",
           keys.source(), type);
  return types;
}

// Returns the number of sliding layers by layer_types, or else `count`, from the other keys.
std::int64_t sliding_layers(const JsonKeys& keys, const ModelConfig& config, std::int64_t count) {
  const auto types = find_layer_types(keys, config);
  if (!types) return count;
  return std::ranges::count(*types, "sliding_attention");
}

// Returns sliding_window; transformers' default of 4096 if the key is absent; nullopt for null.
std::optional<std::int64_t> window_or_default(const JsonKeys& keys) {
  if (!keys.value().contains("sliding_window")) return 4096;
  return keys.find_integer("sliding_window");
}

}  // namespace

void read_hugging_face_rope(const JsonKeys& keys, ModelConfig& config) {
  const std::optional<double> base = keys.find_number("rope_theta");
  const std::optional<Rope> older = find_rope(keys, "rope_scaling");
  const std::optional<Rope> newer = find_rope(keys, "rope_parameters");
  if (older && newer && older->scaling != newer->scaling)
    fail(ErrorCode::invalid_file,
         "{}: rope_scaling and rope_parameters differ; remove the one that does not apply",
         keys.source());
  for (const auto& rope : {older, newer}) {
    if (!rope) continue;
    config.rope_scaling = rope->scaling;
    if (rope->base && base && *rope->base != *base)
      fail(ErrorCode::invalid_file,
           "{}: rope_theta is {}, but that of the rope dictionary is {}; remove the one that does "
           "not apply",
           keys.source(), *base, *rope->base);
    if (rope->base) config.rope_base = *rope->base;
  }
  if (older && newer && older->base && newer->base && *older->base != *newer->base)
    fail(ErrorCode::invalid_file, "{}: rope_scaling and rope_parameters differ in rope_theta",
         keys.source());
  if (base) config.rope_base = *base;
  check_original_positions(keys, config.rope_scaling);
}

// Mistral: the window is in every layer. Qwen: only if switched on, and then from layer
// max_window_layers on. Llama: in no layer, whatever sliding_window says.
void read_hugging_face_window(const JsonKeys& keys, ModelConfig& config) {
  const bool is_qwen =
      config.architecture == Architecture::qwen2 || config.architecture == Architecture::qwen3;
  std::optional<std::int64_t> window;
  std::int64_t count = 0;  // number of layers with a window
  if (config.architecture == Architecture::mistral) {
    window = window_or_default(keys);
    count = window ? config.layers : 0;
  } else if (is_qwen && keys.find_flag("use_sliding_window").value_or(false)) {
    window = window_or_default(keys);
    const std::int64_t first = keys.find_integer("max_window_layers").value_or(28);
    count = window ? config.layers - std::clamp<std::int64_t>(first, 0, config.layers) : 0;
  }
  const std::int64_t sliding = sliding_layers(keys, config, count);
  if (sliding == 0 && (is_qwen || count == 0)) return;
  if (sliding != config.layers || !window)
    fail(ErrorCode::unsupported,
         "{}: a sliding window in {} of the {} layers{} is not supported; it must apply to all "
         "layers or none",
         keys.source(), sliding, config.layers, window ? "" : " without sliding_window");
  config.sliding_window = window;
}

}  // namespace clora
