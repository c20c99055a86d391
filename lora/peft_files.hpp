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

// Creates the folder where it is missing. Errors: io.
void save_adapter(const Adapter& adapter, const std::filesystem::path& folder);

// Attaches the folder's adapter to the sites of a base model, by name. Storage f32, f16 or bf16; r,
// lora_alpha, use_rslora, rank_pattern and alpha_pattern are honoured.
// Errors: not_found, invalid_file; invalid_argument where a tensor fits no site or its shape
// differs (names the tensor and both shapes); unsupported for what is not done here (use_dora,
// bias, modules_to_save, other PEFT types), by name.
Adapter load_adapter(Context& context, const std::filesystem::path& folder,
                     const std::vector<AdapterSite>& sites);

// What a folder's adapter_config.json says, for listings.
AdapterConfig read_adapter_config(const std::filesystem::path& folder);

}  // namespace clora
