// The tensors of the base model that an adapter trains in full and stores as a whole: those of the
// modules that PEFT's modules_to_save selects, and the biases that its bias does. Pure functions;
// thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"

namespace clora {

// Those of `all` whose module's path ends with one of `names`, as in PEFT (0.21): also within a
// part of the path, so that "norm" selects model.norm and model.layers.0.input_layernorm.
// `source` is what errors name. Errors: invalid_argument, with the modules that there are, for a
// name that is empty or selects none.
std::vector<SavedTensor> select_saved_tensors(const std::vector<SavedTensor>& all,
                                              const std::vector<std::string>& names,
                                              std::string_view source);

// These and the biases that the configuration trains: those out of `all`, and with lora_only those
// of the adapted sites; in the order of `all`. Errors: those above.
std::vector<SavedTensor> select_trained_tensors(const std::vector<SavedTensor>& all,
                                                const AdapterConfig& config,
                                                const std::vector<AdapterSite>& adapted,
                                                std::string_view source);

// The ends of the modules' paths, each once, in the order of the model: "input_layernorm, norm".
std::vector<std::string> saved_module_names(const std::vector<SavedTensor>& tensors);

}  // namespace clora
