// Parts of reading config.json, each in its own source file. Private to model/.
#pragma once

#include <string_view>

#include "clora/model/files/model_config.hpp"
#include "clora/runtime/files/json.hpp"

namespace clora {

// Refuses keys that would change the computation and are not implemented here, and lists in
// config.unread_keys those that are neither read nor known to be harmless
// (docs/decisions/unknown-keys.md). REQUIRES: config.architecture. Errors: unsupported,
// invalid_file.
void check_hugging_face_keys(const JsonKeys& keys, ModelConfig& config);

// Sets the rope's base and scaling from rope_theta, rope_scaling and rope_parameters; recent files
// have only the last. REQUIRES: config.max_positions. Errors: unsupported, invalid_file, also if
// two of them are inconsistent.
void read_hugging_face_rope(const JsonKeys& keys, ModelConfig& config);

// Sets the window that all layers have, if any, following transformers' reading of sliding_window,
// use_sliding_window, max_window_layers and layer_types. REQUIRES: config.architecture and layers.
// Errors: unsupported if only some of the layers have a window; invalid_file.
void read_hugging_face_window(const JsonKeys& keys, ModelConfig& config);

}  // namespace clora
