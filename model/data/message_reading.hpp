// Reading one message of a conversation: its role, its text, whether it is trained, and the keys
// that only a template reads (ChatMessage::fields). Errors: Error(invalid_data) with the reason.
// Pure functions; thread-safe.
//
// - role: system, developer, user, assistant, tool; OpenAI's earlier "function" becomes tool.
// - content: a text; a list of typed parts, of which "text" is content and "thinking" or
//   "reasoning" is reasoning; null or absent if the message has tool calls or reasoning.
// - reasoning_content, reasoning, thinking: synonyms. Templates read one of them, so all are set.
// - tool_calls: [{"function": {"name", "arguments"}}], or [{"name", "arguments"}]; OpenAI's earlier
//   function_call becomes one. Arguments: an object, or its JSON text.
// - weight 0 or 1, train, training, loss: whether an assistant message is trained.
#pragma once

#include "clora/model/text/chat_template.hpp"
#include "model/data/record_keys.hpp"

namespace clora {

ChatMessage message_of(const RecordJson& item);

// Returns a call with its "type" and "function", of one in any of the forms above.
RecordJson tool_call_of(const RecordJson& call);

// Leaves a message's reasoning in the one form that a template writes: under its keys, or as typed
// parts of the content. Errors: the template writes neither.
void fit_reasoning(ChatMessage& message, const ChatSupport& support);

// Whether a value is a list of messages, each an object with a role.
bool is_message_list(const RecordJson& value);

}  // namespace clora
