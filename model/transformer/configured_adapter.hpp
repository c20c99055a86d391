// New adapters as a configuration in PEFT's terms describes them, by the rules of
// lora/module_selection.hpp.
#pragma once

#include <string>

#include "clora/lora/adapter.hpp"
#include "model/transformer/adapter_start.hpp"

namespace clora {

// Sets target_modules to the names of all linear layers of the model's blocks.
void target_all_linear(AdapterConfig& config, const ModelConfig& model);

// Creates the adapter; it has no effect until it is trained. With a principal start it has twice
// config.rank, with the same scale: trainers leave the last half as it is. `who` begins the errors:
// invalid_argument if a name in target_modules names no layer, no layer is selected, or a principal
// start is given with patterns or a rank that does not fit; those of ModuleSelection,
// require_savable(), select_trained_tensors() and initialise_from_model(). Waits.
Adapter configured_adapter(LanguageModel& model, AdapterConfig config, const AdapterStart& start,
                           const std::string& who);

}  // namespace clora
