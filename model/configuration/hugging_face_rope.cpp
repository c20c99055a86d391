// config.json: rotary embedding and sliding windows.
#include <algorithm>
#include <array>

#include "model/configuration/hugging_face_config.hpp"
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

std::optional<Rope> find_rope(const HuggingFaceKeys& keys, std::string_view key) {
  const auto dictionary = keys.find_object(key);
  if (!dictionary || dictionary->value().empty()) return std::nullopt;
  return read_rope(*dictionary);
}

// transformers prefers this top-level key to the one in the dictionary.
void check_original_positions(const HuggingFaceKeys& keys, const RopeScaling& scaling) {
  const auto original = keys.find_integer("original_max_position_embeddings");
  if (!original || scaling.kind != RopeScaling::Kind::llama3) return;
  if (*original != scaling.original_max_positions)
    fail(ErrorCode::invalid_file,
         "{}: original_max_position_embeddings is {}, but that of the rope scaling is {}",
         keys.source(), *original, scaling.original_max_positions);
}

}  // namespace

RopeSpec read_rope_dictionary(const JsonKeys& keys, double default_base, std::int64_t width) {
  const Rope rope = read_rope(keys);
  return {.base = rope.base.value_or(default_base), .width = width, .scaling = rope.scaling};
}

RopeSpec read_hugging_face_rope(const HuggingFaceKeys& keys, double default_base,
                                std::int64_t width) {
  const std::optional<double> base = keys.find_number("rope_theta");
  const std::optional<Rope> older = find_rope(keys, "rope_scaling");
  const std::optional<Rope> newer = find_rope(keys, "rope_parameters");
  if (older && newer && older->scaling != newer->scaling)
    fail(ErrorCode::invalid_file,
         "{}: rope_scaling and rope_parameters differ; remove the one that does not apply",
         keys.source());
  RopeSpec spec{.base = default_base, .width = width, .scaling = {}};
  for (const auto& rope : {older, newer}) {
    if (!rope) continue;
    spec.scaling = rope->scaling;
    if (rope->base && base && *rope->base != *base)
      fail(ErrorCode::invalid_file,
           "{}: rope_theta is {}, but that of the rope dictionary is {}; remove the one that does "
           "not apply",
           keys.source(), *base, *rope->base);
    if (rope->base) spec.base = *rope->base;
  }
  if (older && newer && older->base && newer->base && *older->base != *newer->base)
    fail(ErrorCode::invalid_file, "{}: rope_scaling and rope_parameters differ in rope_theta",
         keys.source());
  if (base) spec.base = *base;
  check_original_positions(keys, spec.scaling);
  return spec;
}

std::vector<bool> read_sliding_layers(const HuggingFaceKeys& keys, std::int64_t layers) {
  const auto types = keys.find_texts("layer_types");
  if (!types) return {};
  if (std::cmp_not_equal(types->size(), layers))
    fail(ErrorCode::invalid_file, "{}: layer_types must name {} layers, got {}", keys.source(),
         layers, types->size());
  std::vector<bool> sliding;
  for (const std::string& type : *types) {
    if (type != "full_attention" && type != "sliding_attention")
      fail(ErrorCode::unsupported,
           "{}: the layer type '{}' is not supported; supported types: full_attention, "
           "sliding_attention",
           keys.source(), type);
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

std::optional<std::int64_t> read_window(const HuggingFaceKeys& keys) {
  return keys.has("sliding_window") ? keys.find_integer("sliding_window") : 4096;
}

}  // namespace clora
