// Conversations in records: the forms that people have, converted to messages for a chat template.
// No template and no tokenizer takes part. Pure functions; thread-safe.
//
//   form        keys
//   messages    "messages": [{"role", "content", ...}], or the same list as "conversations"
//   share_gpt   "conversations": [{"from", "value"}]; human, gpt, system, function_call,
//               observation and their synonyms
//   alpaca      "instruction", "input", "output", "history": [[user, assistant], ...]; the input
//               follows the instruction on a line of its own
//   prompt      "prompt", "completion": both lists of messages, of which those of the completion
//               are trained; both texts, as a user and an assistant turn
// Each of them may have "system" (a text, the first message), "tools" (a list or its JSON text) or
// OpenAI's earlier "functions", and "chat_template_kwargs" (an object).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "clora/model/data/records.hpp"
#include "clora/model/text/chat_template.hpp"
#include "model/data/record_keys.hpp"

namespace clora {

struct Conversation {
  std::vector<ChatMessage> messages;
  RecordJson tools = {};      // a list; null: none
  RecordJson arguments = {};  // an object; null: none
};

// Returns the messages of a list; `key` names it in errors. Errors: Error(invalid_data): no list,
// an empty one, or those of message_of().
std::vector<ChatMessage> messages_of(const RecordJson& list, std::string_view key);

// Returns the functions of an object's "tools", or of OpenAI's earlier "functions", and its
// "chat_template_kwargs"; null if it has none. Errors: Error(invalid_data) with the reason.
RecordJson tools_of(const RecordJson& object);
RecordJson arguments_of(const RecordJson& object);

// Gives reasoning the form that a template writes. Errors: Error(invalid_data): the template writes
// no tools, tool calls or reasoning, and the model would silently not see them.
Conversation fitted(Conversation conversation, const ChatSupport& support);

// Returns the form of a record by its keys; nullopt if it has the keys of none. The first in the
// order of RecordForm takes precedence.
std::optional<RecordForm> form_of(const RecordJson& record);

// Whether a record of form prompt holds lists of messages, not texts. Errors: one is a list only.
bool has_prompt_messages(const RecordJson& record);

// Returns the conversation of a record of these forms. Errors: Error(invalid_data) with the reason:
// a key or value that is not understood, or no assistant message. REQUIRES: not text.
Conversation conversation_of(const RecordJson& record, RecordForm form);

}  // namespace clora
