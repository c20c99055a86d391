#include "lora/peft_config.hpp"

#include <cmath>
#include <limits>
#include <optional>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/module_selection.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

// Far more than patterns for every module of a large model need; ordered objects take time
// quadratic in the number of keys.
constexpr JsonLimits kLimits{.bytes = std::size_t{256} << 10U, .depth = 16};

// Returns a list of names, or a single regular expression (`is_regex`).
std::vector<std::string> names_or_regex(const OrderedJsonKeys& keys, std::string_view key,
                                        bool& is_regex) {
  const Json* value = keys.find(key);
  is_regex =
      value != nullptr && value->is_string() && !value->get_ref<const std::string&>().empty();
  if (value == nullptr) return {};
  if (value->is_string()) {
    if (!is_regex) return {};
    return {value->get<std::string>()};
  }
  if (!value->is_array()) keys.wrong_kind(key, "an array of strings or a string", *value);
  return *keys.find_texts(key);
}

bool is_all_linear(const std::string& text) {
  std::string lower = text;
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower == "all-linear";
}

// Resolves PEFT's defaults for the four architectures and its name for all linear layers of a
// block.
void read_targets(const OrderedJsonKeys& keys, AdapterConfig& config) {
  config.target_modules = names_or_regex(keys, "target_modules", config.targets_are_regex);
  if (keys.find("target_modules") == nullptr) config.target_modules = {"q_proj", "v_proj"};
  if (config.targets_are_regex && is_all_linear(config.target_modules.front())) {
    config.targets_are_regex = false;
    config.target_modules = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                             "gate_proj", "up_proj", "down_proj"};
    if (keys.find("layers_to_transform") != nullptr) {
      fail(ErrorCode::invalid_file,
           "{}: layers_to_transform requires a list in target_modules, got \"all-linear\"",
           keys.source());
    }
  }
  if (config.target_modules.empty()) {
    fail(ErrorCode::invalid_file, "{}: target_modules lists no module", keys.source());
  }
}

std::vector<std::int64_t> read_layers(const OrderedJsonKeys& keys) {
  constexpr std::string_view kKey = "layers_to_transform";
  const Json* value = keys.find(kKey);
  if (value == nullptr) return {};
  if (value->is_number_integer()) return {keys.integer(kKey)};
  if (!value->is_array()) keys.wrong_kind(kKey, "an integer or an array of integers", *value);
  std::vector<std::int64_t> layers;
  for (const Json& layer : *value) {
    if (!layer.is_number_integer()) keys.wrong_kind(kKey, "an array of integers", *value);
    layers.push_back(layer.get<std::int64_t>());
  }
  return layers;
}

std::vector<std::string> read_layers_pattern(const OrderedJsonKeys& keys) {
  bool is_text = false;
  return names_or_regex(keys, "layers_pattern", is_text);
}

std::int64_t checked_rank(std::int64_t rank, std::string_view key, std::string_view source) {
  if (rank < 1 || rank > Adapter::kMaxRank)
    fail(ErrorCode::invalid_file, "{}: {} must be from 1 to {}, got {}", source, key,
         Adapter::kMaxRank, rank);
  return rank;
}

ModulePatterns<std::int64_t> read_rank_pattern(const OrderedJsonKeys& keys) {
  ModulePatterns<std::int64_t> patterns;
  const auto object = keys.find_object("rank_pattern");
  if (!object) return patterns;
  for (const auto& [key, value] : object->value().items()) {
    patterns.emplace_back(
        key, checked_rank(object->integer(key), object->name_of_key(key), keys.source()));
  }
  return patterns;
}

ModulePatterns<double> read_alpha_pattern(const OrderedJsonKeys& keys) {
  ModulePatterns<double> patterns;
  const auto object = keys.find_object("alpha_pattern");
  if (!object) return patterns;
  for (const auto& [key, value] : object->value().items()) {
    patterns.emplace_back(key, object->number(key));
  }
  return patterns;
}

// Returns an integer if the value is one, as PEFT writes it.
Json number_json(double value) {
  if (std::nearbyint(value) == value && std::abs(value) < 1e15) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Json names_json(const std::vector<std::string>& names, bool is_regex) {
  if (names.empty()) return nullptr;
  if (is_regex) return names.front();
  return names;
}

template <class T>
Json list_json(const std::vector<T>& values) {
  if (values.empty()) return nullptr;
  return values;
}

template <class T>
Json patterns_json(const ModulePatterns<T>& patterns) {
  Json object = Json::object();
  for (const auto& [key, value] : patterns) object[key] = number_json(static_cast<double>(value));
  return object;
}

}  // namespace

AdapterConfig parse_peft_config(std::string_view text, const std::string& source,
                                BaseWeights base) {
  const Json json = parse_json<Json>(text, source, kLimits);
  const OrderedJsonKeys keys(json, source);
  refuse_peft_keys(keys, base);
  AdapterConfig config;
  config.rank = checked_rank(keys.integer("r"), "r", source);
  config.alpha = keys.find_number("lora_alpha").value_or(8);
  config.dropout = keys.find_number("lora_dropout").value_or(0);
  if (!(config.dropout >= 0 && config.dropout < 1))
    fail(ErrorCode::invalid_file, "{}: lora_dropout must be at least 0 and below 1, got {}", source,
         config.dropout);
  config.rank_stabilised = keys.find_flag("use_rslora").value_or(false);
  config.use_dora = keys.find_flag("use_dora").value_or(false);
  config.base_model = keys.find_text("base_model_name_or_path").value_or("");
  config.task_type = keys.find_text("task_type").value_or(std::string(kCausalLanguageModel));
  read_targets(keys, config);
  config.exclude_modules = names_or_regex(keys, "exclude_modules", config.excludes_are_regex);
  config.layers_to_transform = read_layers(keys);
  config.layers_pattern = read_layers_pattern(keys);
  config.modules_to_save = keys.find_texts("modules_to_save").value_or(std::vector<std::string>());
  config.biases = named_biases(keys.find_text("bias").value_or("none"));
  config.rank_pattern = read_rank_pattern(keys);
  config.alpha_pattern = read_alpha_pattern(keys);
  const ModuleSelection selection(config, source);  // validates its expressions
  return config;
}

AdapterConfig read_peft_config(const std::filesystem::path& folder, BaseWeights base) {
  const std::filesystem::path path = folder / kPeftConfigFile;
  return parse_peft_config(MappedFile::open(path).text(), path.string(), base);
}

bool ensures_weight_tying(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kPeftConfigFile;
  const Json json = parse_json<Json>(MappedFile::open(path).text(), path.string(), kLimits);
  return OrderedJsonKeys(json, path.string()).find_flag("ensure_weight_tying").value_or(false);
}

std::string peft_config_text(const AdapterConfig& config) {
  const Json json{
      {"peft_type", "LORA"},
      {"task_type", config.task_type},
      {"base_model_name_or_path", config.base_model},
      {"r", config.rank},
      {"lora_alpha", number_json(config.alpha)},
      {"lora_dropout", config.dropout},
      {"use_rslora", config.rank_stabilised},
      {"use_dora", config.use_dora},
      {"target_modules", names_json(config.target_modules, config.targets_are_regex)},
      {"exclude_modules", names_json(config.exclude_modules, config.excludes_are_regex)},
      {"layers_to_transform", list_json(config.layers_to_transform)},
      {"layers_pattern", list_json(config.layers_pattern)},
      {"rank_pattern", patterns_json(config.rank_pattern)},
      {"alpha_pattern", patterns_json(config.alpha_pattern)},
      {"bias", name_of(config.biases)},
      {"fan_in_fan_out", false},
      {"modules_to_save", list_json(config.modules_to_save)},
      {"inference_mode", true}};
  return json_text(json, 2) + "\n";
}

}  // namespace clora
