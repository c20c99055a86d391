#include "model/files/generation_config.hpp"

#include <nlohmann/json.hpp>
#include <system_error>

#include "clora/runtime/files/file.hpp"
#include "clora/runtime/files/json.hpp"

namespace clora {

std::vector<std::int32_t> generation_end_ids(const std::filesystem::path& folder,
                                             std::int64_t vocabulary) {
  const std::filesystem::path path = folder / kGenerationConfigName;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const nlohmann::json file = parse_json(MappedFile::open(path).text(), path.string());
  const JsonKeys keys(file, path.string());
  const nlohmann::json* found = keys.find("eos_token_id");
  if (found == nullptr) return {};
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    if (!id.is_number_integer()) {
      keys.wrong_kind("eos_token_id", "a token's id or a list of them", id);
    }
    if (id >= 0 && id < vocabulary) ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace clora
