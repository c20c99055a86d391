// The tensors that modules_to_save of PEFT selects: modules of the base model that an adapter
// trains in full and stores as a whole. Pure functions; thread-safe.
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

// The ends of the modules' paths, each once, in the order of the model: "input_layernorm, norm".
std::vector<std::string> saved_module_names(const std::vector<SavedTensor>& tensors);

}  // namespace clora
