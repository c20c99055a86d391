// CompletionRequest: the body of a request to /v1/completions or /v1/chat/completions.
//
// Every OpenAI field is read, ignored because it cannot change the reply, accepted only with the
// value that has no effect, or refused by name. Unknown fields are refused as well. top_k, min_p
// and repetition_penalty are also read. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "clora/model/generation/generator.hpp"
#include "clora/model/text/chat_template.hpp"
#include "clora/serving/request_error.hpp"

namespace clora {

enum class CompletionKind { text, chat };

struct CompletionRequest {
  CompletionKind kind = CompletionKind::text;
  std::string model = {};                  // empty: not set
  std::string prompt = {};                 // for text; not empty
  std::vector<ChatMessage> messages = {};  // for chat; not empty
  GenerationConfig config = {};            // the server sets end_ids and on_prompt
  std::vector<std::string> stops = {};
  bool stream = false;
  bool include_usage = false;  // a stream ends with an event with the token counts
};

// A missing seed is random; a missing temperature is 1. Needs up to about thirty times the body's
// bytes while it runs. Errors: RequestError (400).
CompletionRequest parse_completion_request(std::string_view body, CompletionKind kind);

}  // namespace clora
