// What a model's first step and first token would build, built ahead into the program cache: by
// doing such steps on the model itself, with its own load path, and keeping nothing else of them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lora/adapter.hpp"
#include "runtime/context.hpp"

namespace clora {

struct WarmingConfig {
  std::filesystem::path model;
  bool trains = true, generates = true;
  AdapterConfig adapter;
  std::vector<std::string> target_modules{"all-linear"};
  std::int64_t sequence_length = 512;  // of a record, at most
  std::int64_t batch_size = 4;         // records a step
  // Told what is done next, in words.
  std::function<void(const std::string&)> progress = {};
};

struct WarmingResult {
  std::size_t built = 0;     // from source
  std::size_t found = 0;     // in the cache already
  std::size_t not_kept = 0;  // of those built: the cache would not take them
  double build_seconds = 0;  // of the compiler
};

// Runs a training step of each size that recorded_row_counts() tells apart by halves, from a whole
// batch down to a few rows, an evaluation, and a short generation with and without the adapter.
// Self-tests are run as at any first use, and their outcomes kept. `context` is what clora would
// use; its hooks.metric is taken. Errors: those of WeightFiles, LanguageModel, Trainer, Generator;
// invalid_argument for module names; not_found where the configuration names no cache folder.
WarmingResult warm_cache(ContextConfig context, const WarmingConfig& config);

}  // namespace clora
