// The fields of OpenAI's completions and chat completions: requests read, replies and errors
// written. Fields that are not named here are ignored.
#pragma once

#include <ctime>
#include <nlohmann/json.hpp>
#include <random>

#include "engine.hpp"
#include "model/chat_template.hpp"
#include "runtime/error.hpp"

using nlohmann::json;

struct Request {
  bool chat = false, stream = false;
  std::string model = {};
  std::vector<std::int32_t> prompt = {};
  clora::GenerationConfig config = {};
  std::vector<std::string> stops = {};
};

inline std::vector<std::int32_t> prompt_of(const Engine& engine, const json& body, bool chat) {
  if (!chat) return engine.tokenizer.encode(body.at("prompt").get<std::string>());
  std::vector<clora::ChatMessage> messages;
  for (const json& m : body.at("messages")) messages.push_back({m.at("role"), m.at("content")});
  return clora::ChatTemplate::recognise(engine.tokenizer.chat_template(), engine.tokenizer)
      .encode(messages, true, engine.tokenizer)
      .ids;
}

// Errors: json::exception for a field that is missing or of another type, clora::Error.
inline Request read(const Engine& engine, const std::string& text, bool chat) {
  const json body = json::parse(text);
  Request r{
      .chat = chat, .stream = body.value("stream", false), .model = body.value("model", "base")};
  if (!engine.served.contains(r.model))
    clora::fail(clora::ErrorCode::not_found, "model: no '{}'", r.model);
  r.prompt = prompt_of(engine, body, chat);
  r.config.max_tokens = body.value("max_tokens", 256);
  r.config.temperature = body.value("temperature", 1.0);
  r.config.top_p = body.value("top_p", 1.0);
  r.config.seed = body.value("seed", std::random_device{}());
  const json stop = body.value("stop", json::array());
  r.stops = stop.is_array() ? stop.get<std::vector<std::string>>() : std::vector<std::string>{stop};
  clora::require(!r.prompt.empty() && r.prompt.size() < Engine::kMaxPositions &&
                     r.config.max_tokens > 0 && r.config.temperature >= 0 && r.config.top_p > 0 &&
                     r.config.top_p <= 1,
                 "request: prompt of 1 to {} tokens, max_tokens > 0, temperature >= 0, "
                 "0 < top_p <= 1",
                 Engine::kMaxPositions - 1);
  return r;
}

// A whole reply, or one piece of a stream; reason is null but at the end.
inline json reply_of(const Request& r, const std::string& text, const json& reason) {
  const char* object = "text_completion";
  json choice{{"index", 0}, {"finish_reason", reason}, {"text", text}};
  if (r.chat) {
    choice.erase("text");
    object = r.stream ? "chat.completion.chunk" : "chat.completion";
    choice[r.stream ? "delta" : "message"] = {{"role", "assistant"}, {"content", text}};
  }
  return {{"object", object},
          {"created", std::time(nullptr)},
          {"model", r.model},
          {"choices", {choice}}};
}

inline json error_of(const char* message) { return {{"error", {{"message", message}}}}; }

inline int status_of(clora::ErrorCode code) {
  if (code == clora::ErrorCode::not_found) return 404;
  if (code == clora::ErrorCode::invalid_argument || code == clora::ErrorCode::unsupported)
    return 400;
  return code == clora::ErrorCode::out_of_memory || code == clora::ErrorCode::device_lost ? 503
                                                                                          : 500;
}
