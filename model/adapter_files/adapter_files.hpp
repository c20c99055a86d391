// Adapters in files of any format: PEFT's folder, mlx-lm's folder, or a GGUF file.
//
// The one place that decides which format a path has; all that takes an adapter reads it here.
// Paths may also be those of the hub's cache (lora/hub_cache.hpp). Only the base model's
// configuration is needed, which may be from either of its own formats. Pure functions except for
// files; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "clora/lora/adapter.hpp"
#include "clora/lora/adapter_values.hpp"
#include "clora/model/adapter_files/conversion_notes.hpp"
#include "clora/model/configuration/model_config.hpp"

namespace clora {

enum class AdapterFormat : std::uint8_t { peft, mlx, gguf };
std::string_view name_of(AdapterFormat format);
// Errors: invalid_argument, with the names that there are.
AdapterFormat named_adapter_format(std::string_view name);

// The format of the file or folder by its contents: a GGUF file, or a folder with one and no
// adapter_config.json, is gguf; a folder with mlx-lm's configuration or tensors is mlx; all else is
// peft, whose reader reports what is missing.
AdapterFormat format_of_adapter(const std::filesystem::path& path);

// Reads an adapter of the base model. Errors: those of read_peft_adapter() (lora/peft_files.hpp);
// the same codes for the other formats, naming the tensor or key: not_found; invalid_file;
// invalid_argument if it does not fit the model; unsupported for what would change what it
// computes.
AdapterValues read_adapter(const std::filesystem::path& path, const ModelConfig& config);

// Reads it onto the device of `context`. Errors: also those of Adapter's constructor.
Adapter load_adapter(Context& context, const std::filesystem::path& path,
                     const ModelConfig& config);

// Writes a folder, or the file of gguf. Values that need no other scale or rank keep their bits;
// the result says which others there are. Errors: io; those of require_format_holds(); invalid_data
// for values that are not finite in the scale of the format.
ConversionNotes write_adapter(const AdapterValues& adapter, AdapterFormat format,
                              const ModelConfig& config, const std::filesystem::path& path);

// Errors: unsupported, naming what the format cannot hold of such an adapter.
void require_format_holds(const Adapter& adapter, AdapterFormat format, const ModelConfig& config);

}  // namespace clora
