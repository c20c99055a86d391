// The fields of a completion request that choose its tokens: sampling, penalties, log-probabilities
// and lengths. Pure functions. Errors: RequestError (400).
#pragma once

#include <optional>

#include "clora/serving/completion_request.hpp"
#include "serving/request_fields.hpp"

namespace clora {

SamplingConfig sampling_of(RequestFields& fields, CompletionKind kind);
// Nothing if it is absent; `least`: the least that is allowed.
std::optional<std::int64_t> max_tokens_of(RequestFields& fields, CompletionKind kind,
                                          std::int64_t least);

}  // namespace clora
