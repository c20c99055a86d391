// Merging an adapter into its base model, written as a Hugging Face model folder.
#pragma once

#include <filesystem>
#include <functional>

#include "lora/adapter.hpp"
#include "model/files/weights.hpp"

namespace clora {

// Writes config.json and model.safetensors (f32; adapted layers hold w + scale b a, computed in
// double) to `folder`, made where missing. Quantised weights are expanded; q and k of files with
// interleaved rotary pairs are put in Hugging Face's order. The tokenizer's files are the caller's
// affair (model/text/tokenizer_files.hpp). go_on is asked before each tensor. Errors: io, also
// before anything is written where the disk is too small; invalid_data for a value that is not
// finite, by its tensor; cancelled where go_on returns false.
void write_fused_model(const WeightFiles& base, const Adapter& adapter,
                       const std::filesystem::path& folder,
                       const std::function<bool()>& go_on = {});

// Makes every tensor of the fused model and drops it. Errors: invalid_data for a value that is not
// finite; cancelled.
void require_finite_fusion(const WeightFiles& base, const Adapter& adapter,
                           const std::function<bool()>& go_on = {});

}  // namespace clora
