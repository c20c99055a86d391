// Merging an adapter into its base model, written as a Hugging Face model folder.
#pragma once

#include <filesystem>

#include "lora/adapter.hpp"
#include "model/weights.hpp"

namespace clora {

// Writes config.json and model.safetensors (f32; adapted layers hold w + scale b a, computed in
// double) to `folder`, made where missing. Quantised weights are expanded; q and k of files with
// interleaved rotary pairs are put in Hugging Face's order. The tokenizer's files are the caller's
// affair (model/tokenizer_files.hpp). Errors: io.
void write_fused_model(const WeightFiles& base, const Adapter& adapter,
                       const std::filesystem::path& folder);

}  // namespace clora
