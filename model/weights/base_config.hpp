// The configuration of a model whose weights are not needed, as for the conversion of its adapters.
#pragma once

#include <filesystem>

#include "clora/model/configuration/model_config.hpp"

namespace clora {

// path: as for WeightFiles::open(), or a folder with config.json alone. Errors: those of
// WeightFiles::open() that are not about tensors of safetensors files.
ModelConfig read_model_config(const std::filesystem::path& path);

}  // namespace clora
