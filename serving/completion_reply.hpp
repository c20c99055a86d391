// CompletionReply: the replies to one completion request as OpenAI's JSON, complete or as the
// chunks of a stream.
//
// A stream of a chat has, for each reply, a delta with the role, deltas with content, tool calls or
// log-probabilities, and an empty delta with the finish reason; then, if requested, a chunk without
// replies with the usage. That of a text that begins with its prompt has this first, and
// log-probabilities of the prompt in chunks without text. Threads: one at a time. The tokenizer
// must outlive it.
#pragma once

#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clora/model/text/tokenizer.hpp"
#include "clora/serving/completion_request.hpp"
#include "clora/serving/event_queue.hpp"
#include "serving/reply_logprobs.hpp"
#include "serving/tool_calls.hpp"

namespace clora {

// The prompt of a text that begins with it.
struct PromptEcho {
  std::string text = {};
  std::int32_t first_id = 0;  // the token that has no log-probability
};

// What all replies to a request share.
struct ReplyContext {
  CompletionKind kind = CompletionKind::text;
  std::string id = {};  // "chatcmpl-..."
  std::string model = {};
  std::string fingerprint = {};
  std::time_t created = 0;
  const Tokenizer* tokenizer = nullptr;
  bool logprobs = false;
  bool include_usage = false;
  ToolCallForm call_form = ToolCallForm::none;
  std::vector<std::string> tools = {};  // names
  bool parallel_tool_calls = true;
  std::int64_t choices = 1;             // of each prompt
  std::vector<PromptEcho> echoes = {};  // of each prompt; empty: replies begin without it
};

struct TokenUsage {
  std::int64_t prompt = 0, cached = 0, generated = 0;
};

class CompletionReply {
 public:
  // `replies`: the number of prompts times that of choices.
  CompletionReply(ReplyContext context, std::size_t replies);

  // The chunks that begin a stream: one for each reply.
  std::vector<nlohmann::json> begin();
  // Adds an event, which is no error, and returns the chunks that it makes.
  std::vector<nlohmann::json> push(const ChoiceEvent& event);
  bool is_finished() const { return finished_ == replies_.size(); }
  // The chunks that end a stream. REQUIRES: is_finished().
  std::vector<nlohmann::json> end() const;

  // The complete reply. REQUIRES: is_finished().
  nlohmann::json complete() const;

  // Of the replies that are finished. A prompt with several replies counts once.
  TokenUsage usage() const;

 private:
  struct Reply {
    ToolCallReader reader;
    TokenOffsets offsets;
    std::string text = {};
    std::vector<ToolCall> calls = {};
    std::vector<PlacedToken> tokens = {};  // with log-probabilities only
    std::string finish_reason = {};        // empty: not finished
    TokenUsage usage = {};
  };

  nlohmann::json envelope(const char* object) const;
  nlohmann::json chunk(std::size_t choice, nlohmann::json delta, const nlohmann::json& logprobs,
                       const nlohmann::json& reason) const;
  nlohmann::json text_delta(const std::string& text) const;
  void add_tokens(Reply& reply, const GenerationEvent& event) const;
  nlohmann::json logprobs_of(std::span<const PlacedToken> tokens) const;
  nlohmann::json message_of(const Reply& reply) const;
  nlohmann::json choice_of(std::size_t index) const;
  std::string finish(Reply& reply, const GenerationEvent& event);
  nlohmann::json usage_json() const;
  bool is_chat() const { return context_.kind == CompletionKind::chat; }

  const ReplyContext context_;
  std::vector<Reply> replies_;
  std::size_t finished_ = 0;
};

// "chatcmpl-" or "cmpl-" and 24 random letters and digits.
std::string random_completion_id(CompletionKind kind);

}  // namespace clora
