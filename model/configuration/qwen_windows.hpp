// The sliding windows of Qwen2 and Qwen3, off in nearly all their models. Private to model/.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "model/configuration/hugging_face_config.hpp"

namespace clora {

// The window of each layer: with use_sliding_window that of sliding_window, in the layers that
// layer_types calls sliding or, without that list, from max_window_layers on.
std::vector<std::optional<std::int64_t>> read_qwen_windows(const HuggingFaceKeys& keys,
                                                           std::int64_t layers);
void write_qwen_windows(nlohmann::ordered_json& object, const ModelConfig& config);

}  // namespace clora
