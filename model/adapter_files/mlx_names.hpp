// The names of modules in mlx-lm (0.32). They are Hugging Face's, some with a prefix. Private to
// model/adapter_files. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "clora/model/configuration/model_config.hpp"

namespace clora {

// What mlx-lm's names of this model's modules begin with: "" or "language_model.". Errors:
// unsupported for a family that mlx-lm does not have.
std::string_view mlx_prefix(const ModelConfig& config);

// Whether mlx-lm has one layer for all experts in place of this module.
bool is_expert(std::string_view path);

}  // namespace clora
