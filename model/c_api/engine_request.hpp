// The requests of clora.h's engines. For the files of model/c_api/ only.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "clora/model/generation/generation_request.hpp"
#include "model/c_api/clora.h"
#include "model/c_api/handles.hpp"

namespace clora::c_api {

// Copies the adapters of a request or of a prefix. `who` starts the messages. Errors:
// invalid_argument.
std::vector<AdapterUse> adapters_of(const clora_adapter_use* adapters, std::size_t count,
                                    std::string_view who);

// Copies a request of this header's size, and compiles its grammar. From any thread. Errors:
// invalid_argument, naming the field; those of TokenGrammar. Values are checked by the engine.
GenerationRequest request_of(const clora_request& request, clora_engine& engine);

}  // namespace clora::c_api
