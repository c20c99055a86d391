// The parts of reading config.json, one source each. Private to model/.
#pragma once

#include <string_view>

#include "model/files/model_config.hpp"
#include "runtime/json.hpp"

namespace clora {

// Refuses what would change the computation and is not done here, and lists in config.unread_keys
// what is neither read nor known not to change it. docs/decisions/unknown-keys.md says which.
// REQUIRES: config.architecture. Errors: unsupported, invalid_file.
void check_hugging_face_keys(const JsonKeys& keys, ModelConfig& config);

// Sets the rope's base and scaling from rope_theta, rope_scaling and rope_parameters, of which
// later files have only the last. REQUIRES: config.max_positions. Errors: unsupported,
// invalid_file; also where two of them contradict one another.
void read_hugging_face_rope(const JsonKeys& keys, ModelConfig& config);

// The window that every layer has, or nothing: as transformers reads sliding_window,
// use_sliding_window, max_window_layers and layer_types. REQUIRES: config.architecture and layers.
// Errors: unsupported where only some of the layers have one; invalid_file.
void read_hugging_face_window(const JsonKeys& keys, ModelConfig& config);

}  // namespace clora
