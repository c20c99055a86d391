// The files behind a WeightFiles: finding them, and listing their tensors under canonical names.
// Private to model/.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lora/safetensors.hpp"
#include "model/files/gguf.hpp"
#include "model/files/weights.hpp"

namespace clora {

// A tensor as stored; `unreadable` says why its type or rank cannot be read, and is empty if it
// can.
struct StoredWeight {
  WeightView view;
  std::string unreadable;
};
using StoredWeights = std::map<std::string, StoredWeight, std::less<>>;  // by canonical name

// The mapped files of one model and its configuration.
struct WeightSources {
  ModelConfig config;
  std::filesystem::path folder;
  std::filesystem::path config_file;
  std::optional<GgufFile> gguf;
  std::vector<SafetensorsFile> safetensors;
};

// Errors: those of WeightFiles::open that come before tensors are looked at.
WeightSources open_weight_sources(const std::filesystem::path& path);

// Every tensor of the files but those that are no weights (rotary tables).
// Errors: invalid_file where two tensors have one canonical name.
StoredWeights list_weights(const WeightSources& sources);

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; a name that is not known
// stays.
std::string canonical_name(std::string_view gguf_name);

}  // namespace clora
