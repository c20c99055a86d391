// Adapters as PEFT (Hugging Face) writes them: a folder with adapter_config.json and
// adapter_model.safetensors, tensors base_model.model.<path>.lora_A.weight [R, K] and
// .lora_B.weight [N, R], f32.
//
// Both files are written atomically; the tensors first, so that a folder with a configuration is
// whole.
#pragma once

#include <filesystem>
#include <vector>

#include "lora/adapter.hpp"

namespace clora {

// Creates the folder where it is missing. The configuration is config_to_save()'s
// (lora/module_selection.hpp). Errors: io.
void save_adapter(const Adapter& adapter, const std::filesystem::path& folder);

// Attaches the folder's adapter to the sites of a base model, by name. Storage f32, f16 or bf16.
// The adapter keeps its configuration, so that save_adapter() writes one that selects the same
// modules with the same ranks and scales.
// Errors: not_found, invalid_file (a tensor is missing, is not selected by target_modules, or holds
// a value that is not finite); invalid_argument where a tensor fits no site or its shape differs
// (names the tensor and both shapes); unsupported for what would compute something else than plain
// LoRA or rsLoRA, by key and value (docs/decisions/unknown-keys.md).
Adapter load_adapter(Context& context, const std::filesystem::path& folder,
                     const std::vector<AdapterSite>& sites);

// What a folder's adapter_config.json says, for listings.
AdapterConfig read_adapter_config(const std::filesystem::path& folder);

}  // namespace clora
