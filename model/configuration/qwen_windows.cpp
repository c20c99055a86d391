#include "model/configuration/qwen_windows.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace clora {
namespace {

std::optional<std::int64_t> window_of(const BlockSpec& block) { return attention_of(block).window; }

}  // namespace

std::vector<std::optional<std::int64_t>> read_qwen_windows(const HuggingFaceKeys& keys,
                                                           std::int64_t layers) {
  std::optional<std::int64_t> window;
  if (keys.flag("use_sliding_window")) window = read_window(keys);
  keys.ignore({"sliding_window"});
  const std::int64_t first = keys.find_integer("max_window_layers").value_or(28);
  const std::vector<bool> listed = read_sliding_layers(keys, layers);
  std::vector<std::optional<std::int64_t>> windows;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const auto i = static_cast<std::size_t>(layer);
    const bool slides = listed.empty() ? layer >= first : listed[i];
    keys.refuse_if(!listed.empty() && slides && !window, "layer_types");
    windows.push_back(slides ? window : std::nullopt);
  }
  return windows;
}

void write_qwen_windows(nlohmann::ordered_json& object, const ModelConfig& config) {
  const auto slides = [](const BlockSpec& block) { return window_of(block).has_value(); };
  const auto sliding = std::ranges::find_if(config.blocks, slides);
  const bool any = sliding != config.blocks.end();
  if (any) object["sliding_window"] = *window_of(*sliding);
  object["use_sliding_window"] = any;
  object["max_window_layers"] = sliding - config.blocks.begin();
  if (!any || std::all_of(sliding, config.blocks.end(), slides)) return;
  for (const BlockSpec& block : config.blocks) {
    object["layer_types"].push_back(slides(block) ? "sliding_attention" : "full_attention");
  }
}

}  // namespace clora
