// OpenAI's completions and chat completions for an Engine: converts a request to tokens and a reply
// to JSON. serving/completion_request.hpp reads and validates the fields.
#pragma once

#include <ctime>
#include <nlohmann/json.hpp>

#include "clora/model/text/chat_template.hpp"
#include "clora/serving/completion_request.hpp"
#include "engine.hpp"

using nlohmann::json;

struct Request : clora::CompletionRequest {
  std::vector<std::int32_t> tokens = {};  // of the prompt or the messages
};

inline std::vector<std::int32_t> tokens_of(const Engine& engine,
                                           const clora::CompletionRequest& r) {
  if (r.kind == clora::CompletionKind::text) return engine.tokenizer.encode(r.prompt);
  return clora::ChatTemplate::parse(engine.tokenizer.chat_template(), engine.tokenizer)
      .encode(r.messages, true, engine.tokenizer)
      .ids;
}

// Errors: clora::Error; its subclass RequestError names the field.
inline Request read(Engine& engine, const std::string& body, clora::CompletionKind kind) {
  const std::lock_guard lock(engine.reading);
  Request r{clora::parse_completion_request(body, kind)};
  if (r.model.empty()) r.model = "base";
  if (!engine.served.contains(r.model)) {
    throw clora::RequestError({.status = 404, .param = "model", .code = "model_not_found"},
                              "model " + clora::quoted_excerpt(r.model) +
                                  " does not exist; GET /v1/models lists the available models");
  }
  r.tokens = tokens_of(engine, r);
  const auto most = static_cast<std::size_t>(engine.max_positions()) - 1;
  if (r.tokens.empty() || r.tokens.size() > most) {
    throw clora::RequestError({.param = kind == clora::CompletionKind::chat ? "messages" : "prompt",
                               .code = "context_length_exceeded"},
                              "the prompt must have 1 to " + std::to_string(most) +
                                  " tokens, got " + std::to_string(r.tokens.size()));
  }
  return r;
}

// A complete reply, or one piece of a stream; reason is null except at the end.
inline json reply_of(const Request& r, const std::string& text, const json& reason) {
  const char* object = "text_completion";
  json choice{{"index", 0}, {"finish_reason", reason}, {"text", text}};
  if (r.kind == clora::CompletionKind::chat) {
    choice.erase("text");
    object = r.stream ? "chat.completion.chunk" : "chat.completion";
    choice[r.stream ? "delta" : "message"] = {{"role", "assistant"}, {"content", text}};
  }
  return {{"object", object},
          {"created", std::time(nullptr)},
          {"model", r.model},
          {"choices", {choice}}};
}

inline json usage_of(const Request& r, const clora::Generation& generated) {
  return {{"prompt_tokens", r.tokens.size()},
          {"completion_tokens", generated.ids.size()},
          {"total_tokens", r.tokens.size() + generated.ids.size()}};
}
