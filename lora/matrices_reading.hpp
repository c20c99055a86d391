// Reading the matrices of an adapter for other weights than those of its base model's files.
// Private to lora/.
#pragma once

#include <filesystem>

#include "clora/lora/adapter_matrices.hpp"
#include "lora/peft_keys.hpp"

namespace clora {

// As read_adapter_matrices() (lora/adapter_matrices.hpp), of an adapter for such weights.
AdapterMatrices read_adapter_matrices(const std::filesystem::path& folder, BaseWeights base);

}  // namespace clora
