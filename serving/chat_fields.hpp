// The fields of a chat request: messages, tools and what a chat template reads. Messages are those
// of model/data/message_reading.hpp. Pure functions. Errors: RequestError (400).
#pragma once

#include "clora/serving/completion_request.hpp"
#include "serving/request_fields.hpp"

namespace clora {

// Reads messages, tools, tool_choice, parallel_tool_calls, add_generation_prompt and
// chat_template_kwargs.
void read_chat_fields(RequestFields& fields, CompletionRequest& request);

ReplyFormat reply_format_of(RequestFields& fields);

}  // namespace clora
