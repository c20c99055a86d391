// Adapters of mlx-lm (Apple): a folder with adapters.safetensors, tensors PATH.lora_a [K, R] and
// PATH.lora_b [R, N], of DoRA also PATH.m [N], and adapter_config.json, whose fine_tune_type and
// lora_parameters tell it from PEFT's file of that name. Source: mlx_lm/tuner (0.32).
//
// All modules have one rank and one scale, which multiplies B A directly. mlx-lm adapts the modules
// `keys` of the last `num_layers` blocks, or those whose full path is a key. An adapter of
// embeddings that are the head too is one of both. Only the base model's configuration is needed.
// Private to model/adapter_files. Thread-safe.
#pragma once

#include <filesystem>

#include "clora/lora/adapter_values.hpp"
#include "clora/model/adapter_files/conversion_notes.hpp"
#include "clora/model/configuration/model_config.hpp"

namespace clora {

inline constexpr const char* kMlxTensorFile = "adapters.safetensors";

// Types: f32, f16 and bf16. The configuration selects exactly the modules of the file. Errors:
// not_found; invalid_file (a tensor is missing, has another shape or a value that is not finite);
// invalid_argument for a tensor of no module of the model; unsupported, naming it, for experts and
// for models that were trained in full.
AdapterValues read_mlx_adapter(const std::filesystem::path& folder, const ModelConfig& config);

// Creates the folder if it is missing and writes f32, the configuration last. Lower ranks are
// padded with zeros; scales that differ from that of most modules are folded into B
// (conversion_notes.hpp). Errors: io; those of require_mlx_holds(); unsupported for matrices of
// embeddings that are the head too unless those of the head are the same.
ConversionNotes write_mlx_adapter(const AdapterValues& adapter, const ModelConfig& config,
                                  const std::filesystem::path& folder);

// Errors: unsupported, naming what the format cannot hold: tensors that are trained in full,
// experts, one of embeddings and head of a model that has one matrix for both; a family that mlx-lm
// lacks.
void require_mlx_holds(const std::vector<AdapterModule>& modules,
                       const std::vector<SavedTensor>& saved, const ModelConfig& config);

}  // namespace clora
