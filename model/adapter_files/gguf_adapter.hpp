// Adapters in GGUF files, as llama.cpp reads them (src/llama-adapter.cpp) and its converter writes
// them: general.type = "adapter", adapter.type = "lora", adapter.lora.alpha, and for each adapted
// tensor of the base model NAME.lora_a [R, K] and NAME.lora_b [N, R]; those of token embeddings are
// [V, R] and [D, R], those of stacked experts [E, R, K] and [E, N, R].
//
// The scale of a tensor is alpha / R, or 1 with alpha = 0. Rows and columns are in the order of the
// base model's GGUF files. Only the base model's configuration is needed. Private to
// model/adapter_files. Thread-safe.
#pragma once

#include <filesystem>

#include "clora/lora/adapter_values.hpp"
#include "clora/model/adapter_files/conversion_notes.hpp"
#include "clora/model/configuration/model_config.hpp"

namespace clora {

// Types: all that to_float() reads. The configuration selects exactly the modules of the file; its
// alpha is the file's. Errors: those of GgufFile::open(); invalid_file (no adapter, a tensor is
// missing, has another shape, or a value that is not finite); invalid_argument (it is for another
// architecture or has tensors that the model does not); unsupported, naming it, for a tensor or key
// that changes what an adapter computes and is not supported.
AdapterValues read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config);

// Writes f32. alpha is that of most modules; scales that it does not give are folded into B
// (conversion_notes.hpp). Errors: io; those of require_gguf_holds().
ConversionNotes write_gguf_adapter(const AdapterValues& adapter, const ModelConfig& config,
                                   const std::filesystem::path& path);

// Errors: unsupported, naming what the format cannot hold: DoRA, tensors that are trained in full,
// embeddings or a head of a model that has one matrix for both.
void require_gguf_holds(const AdapterConfig& adapter, const std::vector<AdapterModule>& modules,
                        const std::vector<SavedTensor>& saved, const ModelConfig& config);

}  // namespace clora
