#include "model/weights/multimodal_text.hpp"

#include <nlohmann/json.hpp>

#include "clora/runtime/files/json.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

constexpr std::string_view kMultimodal = "qwen3_5", kText = "qwen3_5_text";
constexpr const char *kTextConfig = "text_config", *kTied = "tie_word_embeddings";

// transformers ties the head by the outer key.
void take_tied_head(const json& config, json& text, std::string_view file) {
  const auto outer = config.find(kTied);
  const auto inner = text.find(kTied);
  if (outer == config.end()) return;
  if (inner != text.end() && *inner != *outer)
    fail(ErrorCode::unsupported, "{}: {} is {}, but that of {} is {}; make them equal", file, kTied,
         json_excerpt(*outer), kTextConfig, json_excerpt(*inner));
  text[kTied] = *outer;
}

}  // namespace

std::optional<json> text_config_of(const json& config, std::string_view file) {
  if (!config.is_object() || config.value("model_type", json()) != kMultimodal) return std::nullopt;
  const auto found = config.find(kTextConfig);
  if (found == config.end() || !found->is_object())
    fail(ErrorCode::invalid_file, "{}: a {} model must have the key {} with that of its text model",
         file, kMultimodal, kTextConfig);
  json text = *found;
  text["model_type"] = kText;
  take_tied_head(config, text, file);
  for (const char* key : {"bos_token_id", "eos_token_id"}) {
    if (!text.contains(key) && config.contains(key)) text[key] = config[key];
  }
  return text;
}

std::optional<std::string> text_tensor_name(std::string_view name) {
  constexpr std::string_view kLanguageModel = "model.language_model.";
  if (name.starts_with("model.visual.") || name.starts_with("mtp.")) return std::nullopt;
  if (!name.starts_with(kLanguageModel)) return std::string(name);
  return "model." + std::string(name.substr(kLanguageModel.size()));
}

}  // namespace clora
