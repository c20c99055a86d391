// The tensors of adapter_model.safetensors: their names and values. Private to lora/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/lora/safetensors.hpp"

namespace clora {

constexpr const char* kPeftTensorFile = "adapter_model.safetensors";
constexpr std::string_view kPeftPrefix = "base_model.model.";  // of every tensor's name

// "base_model.model.PATH.lora_A.weight", "base_model.model.PATH.lora_B.weight"; of token embeddings
// (lora/end_modules.hpp) "base_model.model.PATH.lora_embedding_A", "...lora_embedding_B"
std::string name_of_a(std::string_view path);
std::string name_of_b(std::string_view path);

// Returns the path in a tensor's name; nullopt if it is not the name of a matrix of that path.
std::optional<std::string> path_in_name(std::string_view name);

// "base_model.model.NAME" of a tensor that is trained in full; the bias of a layer that is adapted
// besides is "base_model.model.PATH.base_layer.bias".
std::string name_of_saved(const SavedTensor& tensor, bool is_adapted);
// Whether `name` is that of the tensor in a file, adapted or not, or of one of the copies of its
// bias that PEFT stores with bias = "all" next to a module of modules_to_save: the same values
// again, and those of the base model.
bool is_name_of_saved(std::string_view name, const SavedTensor& tensor);

// Returns the module of a tensor "base_model.model.PATH.base_layer.weight" of token embeddings or a
// head, of which PEFT stores the base model's weight next to its adapter; else nullopt.
std::optional<std::string> path_of_stored_end(std::string_view name);

// Returns the values of a tensor of f32, f16 or bf16. Errors: unsupported for another type;
// invalid_file if a value is not finite, which would otherwise make every text empty and every loss
// NaN without an error.
std::vector<float> peft_values(const SafetensorsFile& file, const StoredTensor& tensor);

// Throws not_found unless the folder has a configuration and tensors.
void require_peft_folder(const std::filesystem::path& folder);

}  // namespace clora
