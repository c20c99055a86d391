// Merges an adapter into its base model and writes the result as a Hugging Face model folder; or
// writes the base model alone. The counterpart for GGUF is model/export/gguf_model.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/weights/weights.hpp"

namespace clora {

struct FuseOptions {
  DType type = DType::f32;  // of all tensors: f32, f16 or bf16
  // Several files with model.safetensors.index.json if the tensors are larger; a tensor is in one
  // file whatever its size. 0: one file.
  std::uintmax_t max_shard_bytes = 0;
  std::function<bool()> go_on = {};  // called before each tensor
};

// Writes config.json and model.safetensors, or its shards model-00001-of-0000N.safetensors, to
// `folder`, which is created if missing. Adapted layers hold w + scale b a, computed in double and
// rounded once to f32 and then to the type. Quantised weights are dequantised; q and k of
// files with interleaved rotary pairs are reordered to Hugging Face's order. A head that is the
// embedding matrix becomes one of its own if the adapter changes either. The caller writes the
// tokenizer files (model/text/tokenizer_files.hpp). adapter: null for the base model alone. Errors:
// io, also if the disk is too small, before anything is written; invalid_data, naming the tensor,
// for a value that is not finite or too large for the type; unsupported for another type; cancelled
// if go_on returns false.
void write_fused_model(const WeightFiles& base, const Adapter* adapter,
                       const std::filesystem::path& folder, const FuseOptions& options);
// The same in f32, in one file.
void write_fused_model(const WeightFiles& base, const Adapter& adapter,
                       const std::filesystem::path& folder,
                       const std::function<bool()>& go_on = {});

// The names of the weight files that write_fused_model() would write, with the index of shards.
std::vector<std::string> fused_file_names(const WeightFiles& base, const Adapter* adapter,
                                          const FuseOptions& options);

// Computes every tensor of the fused model and discards it. Errors: invalid_data for a value that
// is not finite; cancelled.
void require_finite_fusion(const WeightFiles& base, const Adapter* adapter,
                           const std::function<bool()>& go_on = {});

}  // namespace clora
