// The checks of a GenerationRequest before it waits.
#pragma once

#include <cstdint>

#include "clora/model/generation/generation_request.hpp"

namespace clora {

struct RequestLimits {
  std::int64_t vocabulary = 0;
  std::int64_t longest = 0;  // positions of prompt and reply
  bool has_tokenizer = false;
};

// Errors: invalid_argument, naming the field, what it requires and what it is.
void check_request(const GenerationRequest& request, const RequestLimits& limits);

}  // namespace clora
