// config.json: rotary embedding and sliding windows.
#include <algorithm>
#include <array>
#include <cmath>

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
std::string rope_type_name(const JsonKeys& keys) {
  const auto newer = keys.find_text("rope_type");
  const auto older = keys.find_text("type");
  if (newer && older && *newer != *older)
    fail(ErrorCode::invalid_file, "{}: {} is '{}', but {} is '{}'", keys.source(),
         keys.name_of_key("rope_type"), *newer, keys.name_of_key("type"), *older);
  return newer.value_or(older.value_or("default"));
}

// A type of rope and the keys that it has beyond those of every type.
struct RopeType {
  std::string_view name;
  RopeScaling::Kind kind;
  std::array<std::string_view, 7> keys;
};

constexpr std::array kRopeTypes{
    RopeType{"default", RopeScaling::Kind::none, {}},
    RopeType{"linear", RopeScaling::Kind::linear, {"factor"}},
    RopeType{
        "llama3", RopeScaling::Kind::llama3, {"factor", "low_freq_factor", "high_freq_factor"}},
    RopeType{"yarn",
             RopeScaling::Kind::yarn,
             {"factor", "attention_factor", "beta_fast", "beta_slow", "truncate", "mscale",
              "mscale_all_dim"}},
    RopeType{"dynamic", RopeScaling::Kind::dynamic, {"factor"}},
    RopeType{"longrope",
             RopeScaling::Kind::longrope,
             {"factor", "attention_factor", "short_factor", "long_factor"}},
};

const RopeType& rope_type_of(const JsonKeys& keys) {
  const std::string name = rope_type_name(keys);
  const auto at = std::ranges::find(kRopeTypes, name, &RopeType::name);
  if (at != kRopeTypes.end()) return *at;
  std::vector<std::string_view> names;
  for (const RopeType& type : kRopeTypes) names.push_back(type.name);
  fail(ErrorCode::unsupported, "{}: the rope type '{}' is not supported; supported types: {}",
       keys.source(), name, fmt::join(names, ", "));
}

// Every other key of the dictionary belongs to another rope type, or would change this one. The
// sections of mrope divide the pairs between three positions, which are equal in a text.
void refuse_other_rope_keys(const JsonKeys& keys, const RopeType& type, double partial) {
  constexpr std::array<std::string_view, 5> kAlways{"type", "rope_type", "rope_theta", "finetuned",
                                                    "original_max_position_embeddings"};
  for (const auto& [key, value] : keys.value().items()) {
    const bool is_one = value.is_number() && value.get<double>() == 1;
    const bool is_of_mrope = (key == "mrope_section" && value.is_array()) ||
                             (key == "mrope_interleaved" && value.is_boolean());
    const bool may_be_one = key == "attention_factor" || key == "factor";
    if (key == "partial_rotary_factor" && value.is_number() && value.get<double>() == partial)
      continue;
    if (value.is_null() || is_of_mrope || std::ranges::find(kAlways, key) != kAlways.end())
      continue;
    if (std::ranges::find(type.keys, key) != type.keys.end() || (may_be_one && is_one)) continue;
    fail(ErrorCode::unsupported, "{}: {} = {} is not supported with the rope type '{}'",
         keys.source(), keys.name_of_key(key), json_excerpt(value), type.name);
  }
}

// What transformers reads beside the dictionary.
struct RopeSurroundings {
  std::int64_t width;  // of the part of a head that is rotated
  double partial;      // that width in head dims
  std::int64_t max_positions;
  std::optional<std::int64_t> original_max_positions;
};

void read_llama3(const JsonKeys& keys, RopeScaling& scaling) {
  scaling.factor = keys.number("factor");
  scaling.low_freq_factor = keys.number("low_freq_factor");
  scaling.high_freq_factor = keys.number("high_freq_factor");
  scaling.original_max_positions = keys.integer("original_max_position_embeddings");
  if (!(scaling.high_freq_factor > scaling.low_freq_factor) || scaling.original_max_positions < 1)
    fail(ErrorCode::invalid_file, "{}: the llama3 rope scaling is inconsistent", keys.source());
}

// The dictionary's original number of positions, else that of config.json, else the maximum.
std::int64_t original_positions(const JsonKeys& keys, const RopeSurroundings& around) {
  const std::int64_t original =
      keys.find_integer("original_max_position_embeddings")
          .value_or(around.original_max_positions.value_or(around.max_positions));
  if (original < 1)
    fail(ErrorCode::invalid_file, "{}: original_max_position_embeddings must be positive, got {}",
         keys.source(), original);
  return original;
}

double stretch_of(const JsonKeys& keys, const RopeScaling& scaling,
                  const RopeSurroundings& around) {
  return keys.find_number("factor").value_or(static_cast<double>(around.max_positions) /
                                             static_cast<double>(scaling.original_max_positions));
}

void read_yarn(const JsonKeys& keys, const RopeSurroundings& around, RopeScaling& scaling) {
  scaling.original_max_positions = original_positions(keys, around);
  scaling.factor = stretch_of(keys, scaling, around);
  scaling.beta_fast = keys.find_number("beta_fast").value_or(scaling.beta_fast);
  scaling.beta_slow = keys.find_number("beta_slow").value_or(scaling.beta_slow);
  scaling.truncate = keys.find_flag("truncate").value_or(true);
  const auto magnitude = [&](double m) {
    return scaling.factor <= 1 ? 1.0 : 0.1 * m * std::log(scaling.factor) + 1;
  };
  const double m = keys.find_number("mscale").value_or(0);
  const double m_all = keys.find_number("mscale_all_dim").value_or(0);
  const double by_default = m != 0 && m_all != 0 ? magnitude(m) / magnitude(m_all) : magnitude(1);
  scaling.attention_factor = keys.find_number("attention_factor").value_or(by_default);
}

std::vector<float> read_factors(const JsonKeys& keys, std::string_view key, std::int64_t width) {
  const json* list = keys.find(key);
  const auto wanted = fmt::format("{} positive numbers", width / 2);
  if (list == nullptr)
    fail(ErrorCode::invalid_file, "{}: the key {} is missing", keys.source(),
         keys.name_of_key(key));
  if (!list->is_array() || std::cmp_not_equal(list->size(), width / 2))
    keys.wrong_kind(key, wanted, *list);
  std::vector<float> factors;
  for (const json& factor : *list) {
    if (!factor.is_number() || !(factor.get<float>() > 0)) keys.wrong_kind(key, wanted, factor);
    factors.push_back(factor.get<float>());
  }
  return factors;
}

void read_longrope(const JsonKeys& keys, const RopeSurroundings& around, RopeScaling& scaling) {
  scaling.short_factors = read_factors(keys, "short_factor", around.width);
  scaling.long_factors = read_factors(keys, "long_factor", around.width);
  scaling.original_max_positions = original_positions(keys, around);
  scaling.factor = stretch_of(keys, scaling, around);
  const double original = std::log(static_cast<double>(scaling.original_max_positions));
  const double by_default =
      scaling.factor <= 1 ? 1 : std::sqrt(1 + std::log(scaling.factor) / original);
  scaling.attention_factor = keys.find_number("attention_factor").value_or(by_default);
}

Rope read_rope(const JsonKeys& keys, const RopeSurroundings& around) {
  const RopeType& type = rope_type_of(keys);
  refuse_other_rope_keys(keys, type, around.partial);
  Rope rope{.base = keys.find_number("rope_theta"), .scaling = {}};
  rope.scaling.kind = type.kind;
  switch (type.kind) {
    case RopeScaling::Kind::linear:
      rope.scaling.factor = keys.number("factor");
      break;
    case RopeScaling::Kind::llama3:
      read_llama3(keys, rope.scaling);
      break;
    case RopeScaling::Kind::yarn:
      read_yarn(keys, around, rope.scaling);
      break;
    case RopeScaling::Kind::dynamic:
      rope.scaling.factor = keys.number("factor");
      rope.scaling.original_max_positions = around.max_positions;
      break;
    case RopeScaling::Kind::longrope:
      read_longrope(keys, around, rope.scaling);
      break;
    case RopeScaling::Kind::none:
    case RopeScaling::Kind::factors:
      break;
  }
  return rope;
}

std::optional<Rope> find_rope(const HuggingFaceKeys& keys, std::string_view key,
                              const RopeSurroundings& around) {
  const auto dictionary = keys.find_object(key);
  if (!dictionary || dictionary->value().empty()) return std::nullopt;
  return read_rope(*dictionary, around);
}

// transformers prefers this top-level key to the one in the dictionary.
void check_original_positions(const HuggingFaceKeys& keys, const RopeScaling& scaling) {
  const auto original = keys.find_integer("original_max_position_embeddings");
  const bool has_original = scaling.kind == RopeScaling::Kind::llama3 ||
                            scaling.kind == RopeScaling::Kind::yarn ||
                            scaling.kind == RopeScaling::Kind::longrope;
  if (!original || !has_original) return;
  if (*original != scaling.original_max_positions)
    fail(ErrorCode::invalid_file,
         "{}: original_max_position_embeddings is {}, but that of the rope scaling is {}",
         keys.source(), *original, scaling.original_max_positions);
}

RopeSurroundings surroundings_of(const HuggingFaceKeys& keys, std::int64_t width,
                                 double partial = 1) {
  return {width, partial, keys.integer("max_position_embeddings"),
          keys.find_integer("original_max_position_embeddings")};
}

}  // namespace

RopeSpec read_rope_dictionary(const HuggingFaceKeys& keys, const JsonKeys& dictionary,
                              double default_base, std::int64_t width) {
  const Rope rope = read_rope(dictionary, surroundings_of(keys, width));
  return {.base = rope.base.value_or(default_base), .width = width, .scaling = rope.scaling};
}

RopeSpec read_hugging_face_rope(const HuggingFaceKeys& keys, double default_base,
                                std::int64_t width, double partial) {
  const std::optional<double> base = keys.find_number("rope_theta");
  const RopeSurroundings around = surroundings_of(keys, width, partial);
  const std::optional<Rope> older = find_rope(keys, "rope_scaling", around);
  const std::optional<Rope> newer = find_rope(keys, "rope_parameters", around);
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
