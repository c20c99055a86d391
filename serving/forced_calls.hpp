// forced_call_format(): the form of a reply that must be calls of tools, as a JSON Schema of a call
// and the texts around calls. Pure function; thread-safe.
#pragma once

#include "clora/serving/completion_request.hpp"
#include "serving/tool_calls.hpp"

namespace clora {

// The keys of a call are in the order in which the templates write them. Arguments are what the
// `parameters` of the tool describe; without these, an empty object. The marker of Mistral's form,
// a control token, is not part of it. Errors: RequestError (400): the form is none; `parameters` do
// not describe an object.
ReplyFormat forced_call_format(ToolCallForm form, const CompletionRequest& request);

}  // namespace clora
