// Texts of a request that are given as strings or as token ids, one or several. Pure functions.
// Errors: RequestError (400).
#pragma once

#include <string_view>
#include <vector>

#include "clora/serving/completion_request.hpp"
#include "serving/request_fields.hpp"

namespace clora {

// A non-empty string, an array of token ids, or an array of 1 to `most` of these.
std::vector<CompletionPrompt> prompts_of(RequestFields& fields, std::string_view name,
                                         std::size_t most);

}  // namespace clora
