// The files of an adapter that a training run leaves: PEFT's, which a run resumes and evaluates
// from, and, in another format if one is wanted, adapter.gguf or the folder mlx next to them.
#pragma once

#include <filesystem>

#include "clora/lora/adapter.hpp"
#include "clora/model/adapter_files/adapter_files.hpp"
#include "clora/model/configuration/model_config.hpp"

namespace clora {

inline constexpr const char* kGgufResult = "adapter.gguf";
inline constexpr const char* kMlxResult = "mlx";

// Errors: those of save_adapter() and write_adapter().
void save_result(const Adapter& adapter, AdapterFormat format, const ModelConfig& config,
                 const std::filesystem::path& folder);

}  // namespace clora
