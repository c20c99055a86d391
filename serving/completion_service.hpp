// CompletionService: answers completion requests by an engine: reads the body, tokenizes the
// prompts and submits the replies. It does not depend on HTTP.
//
// Threads: every function from any thread. All that the options point to must outlive it and the
// runs that it starts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/text/chat_template.hpp"
#include "clora/model/text/tokenizer.hpp"
#include "clora/serving/completion_request.hpp"
#include "clora/serving/engine_thread.hpp"
#include "clora/serving/served_models.hpp"

namespace clora {

struct CompletionLimits {
  std::int64_t max_positions = 4096;                // of a sequence: prompt and reply
  std::int64_t max_output_tokens = 0;               // of a reply; 0: what fits
  std::chrono::milliseconds request_time{600'000};  // of all replies to a request
};

struct CompletionOptions {
  EngineThread* engine = nullptr;
  const ServedModels* models = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // or null: chats are refused
  std::string chat_template_text = {};          // gives the form of tool calls
  std::string chat_template_source = {};        // Jinja, for tokenizer_info(); empty: not known
  std::vector<std::int32_t> end_ids = {};
  std::string fingerprint = {};
  CompletionLimits limits = {};
  std::int64_t draft_tokens = 0;  // as in GenerationRequest
  // Compiles a response_format that is not text; empty: such requests are refused. Errors: those of
  // TokenGrammar::from_json_schema().
  std::function<std::shared_ptr<const TokenGrammar>(const ReplyFormat&)> grammar_of = {};
};

struct CompletionFigures {
  std::string id = {};
  std::string model = {};
  std::int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  double first_token_seconds = 0;  // since the submission; 0: none came
};

// The replies to one request while they are generated. Threads: one at a time.
class CompletionRun {
 public:
  virtual ~CompletionRun() = default;

  virtual bool is_stream() const = 0;
  // Waits for the complete reply; null if the client left, as client_left() says. Errors:
  // RequestError: 504 after the time of a request, 503 if the device was lost; Error, as the engine
  // reports it.
  virtual nlohmann::json complete(const std::function<bool()>& client_left) = 0;
  // Sends the events of a stream as they come: "data: {...}\n\n". send() returns false if the
  // client is gone or too slow. Returns whether all was sent. An error becomes an event.
  virtual bool stream(const std::function<bool(const std::string&)>& send,
                      const std::function<bool()>& client_left) = 0;
  virtual CompletionFigures figures() const = 0;
};

class CompletionService {
 public:
  explicit CompletionService(CompletionOptions options);

  // Errors: RequestError; those of EngineThread::submit().
  std::unique_ptr<CompletionRun> start(std::string_view body, CompletionKind kind);

  // The replies to POST /tokenize and /detokenize. Errors: RequestError.
  //   {"prompt" or "content", "add_special_tokens"} or {"messages", "tools", ...}
  //     -> {"tokens", "count", "max_model_len"}
  //   {"tokens"} -> {"prompt"}
  nlohmann::json tokenize(std::string_view body);
  nlohmann::json detokenize(std::string_view body);
  // The reply to GET /tokenizer_info: what clients need that encode by the two above and render
  // chats themselves, with the keys of tokenizer_config.json; null for a token that there is not.
  nlohmann::json tokenizer_info() const;

 private:
  CompletionRequest parse(std::string_view body, CompletionKind kind);
  std::vector<std::int32_t> chat_ids(CompletionRequest& request) const;
  std::vector<std::vector<std::int32_t>> prompts_of(CompletionRequest& request) const;
  std::vector<std::int32_t> checked_ids(std::vector<std::int32_t> ids, const char* field) const;
  void require_length(const std::vector<std::int32_t>& prompt, const char* field) const;
  GenerationRequest generation_of(const CompletionRequest& request,
                                  const std::vector<std::int32_t>& prompt) const;
  std::shared_ptr<const TokenGrammar> grammar_of(const CompletionRequest& request) const;
  std::int64_t max_tokens_of(const CompletionRequest& request, std::size_t prompt) const;

  const CompletionOptions options_;
  std::mutex parsing_;  // one body at a time: parsing takes many times its bytes
};

}  // namespace clora
