// CompletionRequest: the body of a request to /v1/completions or /v1/chat/completions.
//
// Every OpenAI field is read, ignored because it cannot change the reply, accepted only with the
// value that has no effect, or refused by name. Unknown fields are refused as well. Extensions that
// other servers have too are read: top_k, min_p, typical_p, repetition_penalty, ignore_eos,
// add_generation_prompt, chat_template_kwargs. `adapters` is an extension of this server. Pure
// functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/generation/generation_request.hpp"
#include "clora/model/generation/grammar/token_grammar.hpp"
#include "clora/model/text/chat_message.hpp"
#include "clora/serving/request_error.hpp"

namespace clora {

enum class CompletionKind { text, chat };

// A prompt of /v1/completions: a text, or token ids if these are not empty.
struct CompletionPrompt {
  std::string text = {};
  std::vector<std::int32_t> ids = {};
};

// What the reply must match: response_format, or calls of tools.
struct ReplyFormat {
  enum class Kind { text, json_object, json_schema };
  Kind kind = Kind::text;
  std::string schema = {};  // JSON text, with the keys in the order of the request
  SchemaFrame frame = {};   // of calls
};

// tool_choice: whether the reply must be calls of tools. With "none", the request has no tools.
struct ToolChoice {
  bool is_forced = false;
  std::string name = {};  // of the tool, which is called once; empty: any, once or more
};

struct CompletionRequest {
  CompletionKind kind = CompletionKind::text;
  std::string model = {};                       // empty: not set
  std::vector<CompletionPrompt> prompts = {};   // for text; not empty
  std::vector<ChatMessage> messages = {};       // for chat; not empty
  ChatOptions chat = {};                        // for chat; its tools are null for tool_choice none
  ToolChoice tool_choice = {};                  // for chat
  bool parallel_tool_calls = true;              // else only the first call of a reply is returned
  std::vector<AdapterUse> adapters = {};        // in place of those of the model; at most two
  std::int64_t choices = 1;                     // replies to each prompt
  std::optional<std::int64_t> max_tokens = {};  // 0 only with echo
  SamplingConfig sampling = {};                 // the seed is that of the first choice
  std::vector<std::string> stops = {};
  ReplyFormat format = {};
  bool add_special_tokens = true;  // of a text: before it, what the model expects (bos)
  bool echo = false;               // a reply of text begins with its prompt
  bool ignore_eos = false;         // end tokens do not end the reply
  bool stream = false;
  bool include_usage = false;  // a stream ends with an event with the token counts
};

inline constexpr std::int64_t kMaxChoices = 128;  // of a request, for all of its prompts together

// A missing seed is random; a missing temperature is 1. Needs up to about thirty times the body's
// bytes while it runs. Errors: RequestError (400).
CompletionRequest parse_completion_request(std::string_view body, CompletionKind kind);

}  // namespace clora
