// What a folder with a model's files contains: Hugging Face's weights, or a GGUF file. Pure
// functions; thread-safe. Private to model/.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace clora {

constexpr std::string_view kSafetensorsName = "model.safetensors";
constexpr std::string_view kSafetensorsIndexName = "model.safetensors.index.json";

// True iff the folder contains one of the two files.
bool has_safetensors(const std::filesystem::path& folder);

// Returns the path of the only .gguf file, or of the first part that is there if all are parts of
// one model; nullopt if there is none. Errors: io (the folder cannot be read), not_found (several
// models: one must be named).
std::optional<std::filesystem::path> gguf_model_in(const std::filesystem::path& folder);

}  // namespace clora
