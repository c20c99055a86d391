// The adapter that a training run starts from: a new one built from the options, or an existing
// one, which keeps its rank and modules.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct TrainingAdapterOptions {
  AdapterConfig config;        // of a new adapter
  std::string init;            // folder of an existing adapter, or empty
  std::string start = "lora";  // of a new adapter's matrices: "lora", "pissa" or "olora"
  std::string layers = "all";
  std::string bias = "none";
  std::vector<std::string> target_modules{"all-linear"};
  std::set<std::string> given;  // the options given that describe an adapter: "rank"

  // Whether a new adapter begins with a part of the weights, and the ranks that are frozen then;
  // the adapter has as many more.
  bool has_principal_start() const { return init.empty() && start != "lora"; }
  std::int64_t frozen_ranks() const { return has_principal_start() ? config.rank : 0; }

  // Fills `given`. REQUIRES: the command line is parsed.
  void note_given(const CLI::App& command);
  // The options to leave out of a run's configuration file: with an existing adapter, its own rank
  // and modules apply.
  std::vector<std::string> left_out_of_configuration() const;
};

void add_training_adapter_options(CLI::App& command, TrainingAdapterOptions& options);

// Of a new adapter, magnitudes, modules trained in full and a part of the weights to begin with
// follow in initialise_from_model().
// `model` is the model name stored in the adapter's configuration. Errors: those of load_adapter()
// and select_sites(); invalid_argument for an option that contradicts an existing adapter.
Adapter make_adapter(const TrainingAdapterOptions& options, Context& context,
                     const ModelConfig& config, const std::string& model, std::uint64_t seed);
// Sets what of a new adapter follows from the model's weights: magnitudes (DoRA), modules trained
// in full and the matrices of PiSSA and OLoRA. Does nothing to an existing one.
void initialise_from_model(const TrainingAdapterOptions& options, LanguageModel& model,
                           Adapter& adapter);

}  // namespace clora
