// OpenAI's completions and chat completions for an Engine: converts a request to tokens and a reply
// to JSON. serving/completion_request.hpp reads and validates the fields.
#pragma once

#include <ctime>
#include <nlohmann/json.hpp>

#include "clora/model/generation/generator.hpp"
#include "clora/model/text/chat_template.hpp"
#include "clora/serving/completion_request.hpp"
#include "engine.hpp"

using nlohmann::json;

struct Request : clora::CompletionRequest {
  std::vector<std::int32_t> tokens = {};  // of the prompt or the messages
  clora::GenerationConfig config = {};
};

// What a Generator does not do is refused by name.
inline void refuse_if(bool is_used, const char* field) {
  if (!is_used) return;
  throw clora::RequestError({.param = field, .code = "unsupported_parameter"},
                            std::string("the field ") + field + " is not supported");
}

inline clora::GenerationConfig config_of(const clora::CompletionRequest& r) {
  const clora::SamplingConfig& s = r.sampling;
  refuse_if(r.choices > 1, "n");
  refuse_if(r.prompts.size() > 1, "prompt");
  refuse_if(!r.adapters.empty(), "adapters");
  refuse_if(!r.chat.tools.is_null(), "tools");
  refuse_if(r.echo, "echo");
  refuse_if(s.logprobs, "logprobs");
  refuse_if(s.typical_p != 1, "typical_p");
  refuse_if(s.presence_penalty != 0, "presence_penalty");
  refuse_if(s.frequency_penalty != 0, "frequency_penalty");
  refuse_if(!s.logit_bias.empty(), "logit_bias");
  refuse_if(r.ignore_eos, "ignore_eos");
  refuse_if(r.format.kind != clora::ReplyFormat::Kind::text, "response_format");
  clora::GenerationConfig config{.temperature = s.temperature,
                                 .top_k = s.top_k,
                                 .top_p = s.top_p,
                                 .min_p = s.min_p,
                                 .repetition_penalty = s.repetition_penalty,
                                 .seed = s.seed};
  if (r.max_tokens > 0) config.max_tokens = r.max_tokens;
  return config;
}

inline std::vector<std::int32_t> tokens_of(const Engine& engine,
                                           const clora::CompletionRequest& r) {
  if (r.kind == clora::CompletionKind::chat) {
    return clora::ChatTemplate::parse(engine.tokenizer.chat_template(), engine.tokenizer)
        .encode(r.messages, r.chat, engine.tokenizer)
        .ids;
  }
  const clora::CompletionPrompt& prompt = r.prompts.front();
  return prompt.ids.empty() ? engine.tokenizer.encode(prompt.text) : prompt.ids;
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
  r.config = config_of(r);
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
