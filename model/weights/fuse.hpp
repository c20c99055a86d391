// Merges an adapter into its base model and writes the result as a Hugging Face model folder.
#pragma once

#include <filesystem>
#include <functional>

#include "clora/lora/adapter.hpp"
#include "clora/model/weights/weights.hpp"

namespace clora {

// Writes config.json and model.safetensors (f32; adapted layers hold w + scale b a, computed in
// double) to `folder`, which is created if missing. Quantised weights are dequantised; q and k of
// files with interleaved rotary pairs are reordered to Hugging Face's order. A head that is the
// embedding matrix becomes one of its own if the adapter changes either. The caller writes the
// tokenizer files (model/text/tokenizer_files.hpp). go_on is called before each tensor. Errors: io,
// also if the disk is too small, before anything is written; invalid_data, naming the tensor, for a
// value that is not finite; cancelled if go_on returns false.
void write_fused_model(const WeightFiles& base, const Adapter& adapter,
                       const std::filesystem::path& folder,
                       const std::function<bool()>& go_on = {});

// Computes every tensor of the fused model and discards it. Errors: invalid_data for a value that
// is not finite; cancelled.
void require_finite_fusion(const WeightFiles& base, const Adapter& adapter,
                           const std::function<bool()>& go_on = {});

}  // namespace clora
