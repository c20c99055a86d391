// The files behind a WeightFiles: finds them, and lists their tensors under canonical names.
// Private to model/.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "clora/lora/safetensors.hpp"
#include "clora/model/files/gguf.hpp"
#include "clora/model/weights/weights.hpp"
#include "model/configuration/quantisation_scheme.hpp"

namespace clora {

// A tensor as stored; `unreadable` is the reason if its type or rank is not supported, else empty.
struct StoredWeight {
  WeightView view;
  std::string unreadable;
};
using StoredWeights = std::map<std::string, StoredWeight, std::less<>>;  // by name

// The mapped files of one model and its configuration.
struct WeightSources {
  ModelConfig config;
  std::filesystem::path folder;
  std::filesystem::path config_file;
  std::optional<GgufFile> gguf;
  std::vector<SafetensorsFile> safetensors;
  bool is_multimodal = false;                      // model/weights/multimodal_text.hpp
  std::optional<QuantisationScheme> quantisation;  // of the safetensors files
};

// Errors: those of WeightFiles::open that precede the checks of tensors.
WeightSources open_weight_sources(const std::filesystem::path& path);

// Returns all tensors of the files except those that are not weights (rotary tables) or not of the
// text model of a multimodal one; those of a
// GGUF file under the names that `needs` gives them, or else their own; a quantised layer's as one
// weight (quantised_layers.hpp). Errors: invalid_file if two tensors have the same name; those of
// arrange_quantised_layers().
StoredWeights list_weights(const WeightSources& sources, const std::vector<WeightNeed>& needs);

}  // namespace clora
