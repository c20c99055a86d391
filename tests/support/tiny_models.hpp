// Tiny models with random weights, one of each architecture, written as Hugging Face folders.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/configuration/model_config.hpp"

namespace clora::test {

struct TinyModel {
  std::string name;
  ModelConfig config;
};

// Llama (an untied head, heads wider than D / H), Qwen2 (biases, a tied head), Qwen3 (normalised
// heads), Mistral (a sliding window of 5), SmolLM3 (a layer without rope), Granite (four scalars),
// Gemma 2 (soft caps), Gemma 3 (norms on both sides, geglu, a window in one layer), Ministral 3
// (queries multiplied by their position), Phi-3 (joined linear layers, a partial rope), Qwen3-MoE
// (5 experts in the second layer, of which a token has 2), Mixtral (4 experts, of which it has 3,
// with normalised weights), LFM2 (a short convolution with biases) and Qwen3.5 (Gated DeltaNet,
// gated attention).
std::vector<TinyModel> tiny_models();
// That of a name above.
ModelConfig tiny_config(std::string_view name);

// Writes config.json and model.safetensors (f32 or bf16) with weights derived from a seed. The
// blocks follow from the other sizes of `config`, which a caller may change.
void write_tiny_model(const std::filesystem::path& folder, const ModelConfig& config,
                      DType type = DType::f32, std::uint32_t seed = 1);

}  // namespace clora::test
