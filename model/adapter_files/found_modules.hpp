// The configuration of an adapter whose file lists its modules by their tensors alone. Private to
// model/adapter_files. Pure functions; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "clora/lora/adapter_values.hpp"
#include "clora/model/configuration/model_config.hpp"

namespace clora {

struct FoundSettings {
  std::string source;  // named in errors
  double alpha = 0;    // of most modules; 0: their rank times their scale
  double dropout = 0;
  bool use_dora = false;
};

// The adapter of these modules: its configuration selects exactly them, and its ranks, alphas and
// patterns give each its rank and scale. Errors: invalid_file without modules.
AdapterValues adapter_of_found(std::vector<ModuleValues> modules, const ModelConfig& model,
                               const FoundSettings& settings);

}  // namespace clora
