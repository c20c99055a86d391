#include "clora/serving/served_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "clora/serving/request_error.hpp"

namespace clora {
namespace {

using nlohmann::json;

bool is_name(std::string_view text) {
  constexpr std::string_view kMarks = "._:/@-";
  return !text.empty() && text.size() <= 128 && std::ranges::all_of(text, [&](unsigned char c) {
    return c < 0x80 &&
           (std::isalnum(c) != 0 || kMarks.find(static_cast<char>(c)) != std::string_view::npos);
  });
}

}  // namespace

ServedModels::ServedModels(std::string base, std::string path)
    : base_{std::move(base), std::move(path), std::time(nullptr)} {}

void ServedModels::require_free(const std::string& adapter) const {
  const std::lock_guard lock(mutex_);
  require_free_name(adapter);
}

void ServedModels::add(const std::string& adapter, std::string path) {
  const std::lock_guard lock(mutex_);
  require_free_name(adapter);
  adapters_[adapter] = {adapter, std::move(path), std::time(nullptr)};
}

void ServedModels::require_free_name(const std::string& adapter) const {
  if (!is_name(adapter)) {
    throw RequestError({.param = "lora_name", .code = "invalid_value"},
                       fmt::format("the name of an adapter must have 1 to 128 letters, digits or "
                                   "._:/@-, got {}",
                                   quoted_excerpt(adapter)));
  }
  if (adapter == base_.name || adapters_.contains(adapter)) {
    throw RequestError({.param = "lora_name", .code = "invalid_value"},
                       fmt::format("a model with the name {} is served already; unload it first or "
                                   "choose another name",
                                   quoted_excerpt(adapter)));
  }
}

void ServedModels::remove(const std::string& adapter) {
  const std::lock_guard lock(mutex_);
  require_adapter(adapter, "lora_name");
  adapters_.erase(adapter);
}

void ServedModels::require_adapter(const std::string& name, const std::string& field) const {
  if (adapters_.contains(name)) return;
  throw RequestError({.status = 404, .param = field, .code = "model_not_found"},
                     fmt::format("the {} {} does not exist; GET /v1/models lists what is served",
                                 field == "model" ? "model" : "adapter", quoted_excerpt(name)));
}

std::vector<AdapterUse> ServedModels::uses_of(const std::string& model,
                                              const std::vector<AdapterUse>& listed) const {
  const bool is_base = model.empty() || model == base_.name;
  const std::lock_guard lock(mutex_);
  if (!is_base) require_adapter(model, "model");
  if (!is_base && !listed.empty()) {
    throw RequestError({.param = "adapters", .code = "invalid_value"},
                       "adapters must be absent if the model is an adapter; list both in adapters");
  }
  for (const AdapterUse& use : listed) require_adapter(use.name, "adapters");
  if (!listed.empty() || is_base) return listed;
  return {{.name = model}};
}

json ServedModels::describe(const Entry& entry) const {
  const bool is_base = entry.name == base_.name;
  return {{"id", entry.name},         {"object", "model"},
          {"created", entry.created}, {"owned_by", "clora"},
          {"root", entry.path},       {"parent", is_base ? json(nullptr) : json(base_.name)}};
}

json ServedModels::list() const {
  const std::lock_guard lock(mutex_);
  json models = json::array({describe(base_)});
  for (const auto& [name, entry] : adapters_) models.push_back(describe(entry));
  return {{"object", "list"}, {"data", models}};
}

json ServedModels::describe(const std::string& model) const {
  if (model == base_.name) return describe(base_);
  const std::lock_guard lock(mutex_);
  require_adapter(model, "model");
  return describe(adapters_.at(model));
}

std::filesystem::path adapter_path_below(const std::filesystem::path& allowed,
                                         const std::string& path) {
  std::error_code error;
  const auto root = std::filesystem::canonical(allowed, error);
  const auto adapter = error ? root : std::filesystem::weakly_canonical(root / path, error);
  const auto [in_root, in_adapter] = std::ranges::mismatch(root, adapter);
  const bool is_below = in_root == root.end() && in_adapter != adapter.end();
  // Checked first, so that the status does not depend on what exists elsewhere.
  if (error || !is_below || path.find('\0') != std::string::npos) {
    throw RequestError({.status = 403, .param = "lora_path", .code = "forbidden"},
                       "lora_path must be an adapter below the server's folder of adapters");
  }
  const bool is_file =
      std::filesystem::is_regular_file(adapter, error) && adapter.extension() == ".gguf";
  if (!is_file && !std::filesystem::is_directory(adapter, error)) {
    throw RequestError({.param = "lora_path", .code = "invalid_value"},
                       fmt::format("lora_path must be an existing folder or .gguf file, got {}",
                                   quoted_excerpt(path)));
  }
  return adapter;
}

}  // namespace clora
