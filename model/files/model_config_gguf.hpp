// Parts of reading a GGUF file's configuration. Private to model/.
#pragma once

#include <string_view>

#include "clora/model/files/model_config.hpp"

namespace clora {

class GgufFile;

// Refuses metadata that would change the computation and is not implemented here, and lists in
// config.unread_keys the keys that are neither read nor known to be harmless. `prefix` is the
// architecture's name in the keys. REQUIRES: config.architecture. Errors: unsupported.
void check_gguf_keys(const GgufFile& file, std::string_view prefix, ModelConfig& config);

}  // namespace clora
