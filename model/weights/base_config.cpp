#include "model/weights/base_config.hpp"

#include <optional>

#include "clora/model/weights/weights.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/hub_cache.hpp"
#include "model/weights/multimodal_text.hpp"

namespace clora {

ModelConfig read_model_config(const std::filesystem::path& path) {
  const std::filesystem::path file = resolve_hub_path(path) / "config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return WeightFiles::open(path).config();
  const nlohmann::json config = read_json_file(file);
  const std::optional<nlohmann::json> text = text_config_of(config, file.string());
  return from_hugging_face(text ? *text : config, file.string());
}

}  // namespace clora
