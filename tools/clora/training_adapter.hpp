// The adapter that a training run begins with: a new one as the options describe it, or one that is
// given, which keeps its own rank and modules.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lora/adapter.hpp"
#include "tools/clora/loaded_model.hpp"

namespace clora {

struct TrainingAdapterOptions {
  AdapterConfig config;  // of a new one
  std::string init;      // folder of the one that is given, or empty
  std::string layers = "all";
  std::vector<std::string> target_modules{"all-linear"};
  std::set<std::string> given;  // those of the options that describe an adapter: "rank"

  // Fills `given`. REQUIRES: the command is parsed.
  void note_given(const CLI::App& command);
  // Names that a run's configuration does not hold: beside a given adapter, a rank of the options
  // would be one more.
  std::vector<std::string> left_out_of_configuration() const;
};

void add_training_adapter_options(CLI::App& command, TrainingAdapterOptions& options);

// `model` is the name that the adapter's configuration holds. Errors: those of load_adapter() and
// select_sites(); invalid_argument for an option that says something else than a given adapter.
Adapter make_adapter(const TrainingAdapterOptions& options, LoadedModel& loaded,
                     const std::string& model, std::uint64_t seed);

}  // namespace clora
