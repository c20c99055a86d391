// Checks shared by the two sources of a ModelConfig. Private to model/.
#pragma once

#include <string_view>

#include "clora/model/files/model_config.hpp"

namespace clora {

// Errors: unsupported, naming `file` and `name`, if the architecture is not supported.
Architecture architecture_of(std::string_view name, std::string_view file);

// Errors: invalid_file if a size is out of range or sizes are inconsistent.
void check_sizes(const ModelConfig& config, std::string_view file);

}  // namespace clora
