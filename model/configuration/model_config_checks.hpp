// Checks shared by the two sources of a ModelConfig. Private to model/.
#pragma once

#include <string_view>

#include "clora/model/configuration/model_config.hpp"

namespace clora {

// Errors: invalid_file if a size is out of range or sizes are inconsistent.
void check_sizes(const ModelConfig& config, std::string_view file);

}  // namespace clora
