// Adapters in the format of PEFT (Hugging Face): a folder with adapter_config.json and
// adapter_model.safetensors, tensors base_model.model.<path>.lora_A.weight [R, K] and
// .lora_B.weight [N, R], .lora_magnitude_vector [N] of DoRA, and whole tensors
// base_model.model.<name> of modules_to_save and bias, f32. The matrices of token embeddings are
// .lora_embedding_A [R, V] and .lora_embedding_B [D, R]; the bias of an adapted layer is
// .base_layer.bias.
//
// Both files are written atomically, the tensors first, so that a folder with a configuration is
// complete.
#pragma once

#include <filesystem>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/lora/adapter_values.hpp"

namespace clora {

// Creates the folder if it is missing. Saves the configuration of config_to_save()
// (lora/module_selection.hpp). Errors: io.
void save_adapter(const Adapter& adapter, const std::filesystem::path& folder);

// Attaches the folder's adapter to the sites of a base model, by name, and to the tensors out of
// `savable` that modules_to_save and bias select (savable_tensors() of
// model/transformer/saved_tensors.hpp). Storage f32, f16 or bf16. The adapter keeps its
// configuration, so that save_adapter() writes one that selects the same modules with the same
// ranks and scales. The embeddings and head that PEFT may store with their adapters are ignored:
// require_stored_ends() (model/weights/stored_ends.hpp) compares them. Errors: not_found;
// invalid_file (a tensor is missing, is not selected by target_modules, or has a value that is not
// finite); invalid_argument if a tensor matches no site or its shape differs (names the tensor and
// both shapes); unsupported for settings, by key and value, that are not LoRA, rsLoRA or DoRA
// (docs/decisions/unknown-keys.md).
Adapter load_adapter(Context& context, const std::filesystem::path& folder,
                     const std::vector<AdapterSite>& sites,
                     const std::vector<SavedTensor>& savable = {});

// The halves of these on the host: load_adapter() is to_device(read_peft_adapter()), save_adapter()
// write_peft_adapter(values_of()). Errors: those of load_adapter() and save_adapter().
AdapterValues read_peft_adapter(const std::filesystem::path& folder,
                                const std::vector<AdapterSite>& sites,
                                const std::vector<SavedTensor>& savable = {});
void write_peft_adapter(const AdapterValues& adapter, const std::filesystem::path& folder);

// The configuration in a folder's adapter_config.json, for listings.
AdapterConfig read_adapter_config(const std::filesystem::path& folder);

}  // namespace clora
