// Fills the program cache with the kernels that a model's first training step and first generated
// token need. It loads the model in the normal way, runs such steps on it, and discards their
// results.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/runtime/context.hpp"

namespace clora {

struct WarmingConfig {
  std::filesystem::path model;
  bool trains = true, generates = true;
  AdapterConfig adapter;
  std::vector<std::string> target_modules{"all-linear"};
  std::int64_t sequence_length = 512;  // maximum per record
  std::int64_t batch_size = 4;         // records per step
  // Receives a description of the next step.
  std::function<void(const std::string&)> progress = {};
};

struct WarmingResult {
  std::size_t built = 0;       // from source
  std::size_t found = 0;       // already in the cache
  std::size_t not_cached = 0;  // built, but the cache could not store them
  double build_seconds = 0;    // compiler time
};

// Runs training steps from a full batch down to a few rows, halving the size each time to cover the
// classes of recorded_row_counts(), an evaluation, and a short generation with and without the
// adapter. Self-tests run as on any first use, and their results are stored. `context` is the
// configuration that clora would use; its hooks.metric is replaced. Errors: those of WeightFiles,
// LanguageModel, Trainer and Generator; invalid_argument for module names; not_found if the
// configuration has no cache folder.
WarmingResult warm_cache(ContextConfig context, const WarmingConfig& config);

}  // namespace clora
