// CompletionRequest: what a client may put into /v1/completions and /v1/chat/completions.
//
// Every field of OpenAI's is read, ignored because it cannot change the reply, accepted at the one
// value that changes nothing, or refused by name; so is every field that nobody knows. top_k, min_p
// and repetition_penalty are read besides. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/generation/generator.hpp"
#include "model/text/chat_template.hpp"
#include "serving/request_error.hpp"

namespace clora {

enum class CompletionKind { text, chat };

struct CompletionRequest {
  CompletionKind kind = CompletionKind::text;
  std::string model = {};                  // empty: not given
  std::string prompt = {};                 // of text, not empty
  std::vector<ChatMessage> messages = {};  // of chat, not empty
  GenerationConfig config = {};            // end_ids and on_prompt are left to the server
  std::vector<std::string> stops = {};
  bool stream = false;
  bool include_usage = false;  // a stream ends with an event that counts the tokens
};

// A seed that is not given is random, a temperature 1. Needs up to some thirty times the body's
// bytes while it runs. Errors: RequestError (400).
CompletionRequest parse_completion_request(std::string_view body, CompletionKind kind);

}  // namespace clora
