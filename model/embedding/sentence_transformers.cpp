#include "model/embedding/sentence_transformers.hpp"

#include <array>
#include <utility>

#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// nullopt if the file does not exist.
std::optional<json> read_json(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  return read_json_file(path);
}

// "Pooling" of "sentence_transformers.models.Pooling"
std::string last_part(const std::string& type) { return type.substr(type.rfind('.') + 1); }

Pooling read_pooling(const fs::path& path) {
  const auto object = read_json(path);
  if (!object) fail(ErrorCode::not_found, "{}: the configuration of the pooling", path.string());
  const JsonKeys keys(*object, path.string());
  constexpr std::array<std::pair<const char*, Pooling>, 3> kPoolings{
      {{"pooling_mode_mean_tokens", Pooling::mean},
       {"pooling_mode_cls_token", Pooling::first_token},
       {"pooling_mode_lasttoken", Pooling::last_token}}};
  std::optional<Pooling> pooling;
  int modes = 0;
  for (const auto& [key, value] : object->items()) {
    if (key.starts_with("pooling_mode_") && value == json(true)) ++modes;
  }
  for (const auto& [key, mode] : kPoolings) {
    if (keys.find_flag(key).value_or(false)) pooling = mode;
  }
  if (!pooling || modes != 1)
    fail(ErrorCode::unsupported,
         "{}: the pooling must be one of mean_tokens, cls_token and lasttoken", path.string());
  return *pooling;
}

void read_prompts(const fs::path& path, SentenceTransformersConfig& config) {
  const auto object = read_json(path);
  if (!object) return;
  const JsonKeys keys(*object, path.string());
  config.default_prompt = keys.find_text("default_prompt_name").value_or("");
  const auto prompts = keys.find_object("prompts");
  if (!prompts) return;
  for (const auto& [name, text] : prompts->value().items()) {
    if (!text.is_string()) prompts->wrong_kind(name, "a text", text);
    config.prompts.emplace(name, text.get<std::string>());
  }
}

}  // namespace

std::optional<SentenceTransformersConfig> read_sentence_transformers(const fs::path& folder) {
  const fs::path path = folder / "modules.json";
  const auto modules = read_json(path);
  if (!modules) return std::nullopt;
  if (!modules->is_array())
    fail(ErrorCode::invalid_file, "{}: must be a list of modules", path.string());
  SentenceTransformersConfig config;
  for (const json& module : *modules) {
    const JsonKeys keys(module, path.string());
    const std::string type = last_part(keys.text("type"));
    if (type == "Pooling") {
      config.pooling = read_pooling(folder / keys.text("path") / "config.json");
    } else if (type == "Normalize") {
      config.normalises = true;
    } else if (type != "Transformer") {
      fail(ErrorCode::unsupported, "{}: the module {} is not supported", path.string(), type);
    }
  }
  if (const auto limits = read_json(folder / "sentence_bert_config.json")) {
    const JsonKeys keys(*limits, (folder / "sentence_bert_config.json").string());
    config.max_length = keys.find_integer("max_seq_length").value_or(0);
  }
  read_prompts(folder / "config_sentence_transformers.json", config);
  return config;
}

}  // namespace clora
