#include "clora/serving/completion_request.hpp"

#include <fmt/format.h>

#include <limits>
#include <random>

#include "clora/runtime/files/json.hpp"
#include "serving/request_fields.hpp"

namespace clora {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxSeed = std::numeric_limits<std::uint32_t>::max();

json parse_body(std::string_view body) {
  try {
    return parse_json(body, "the request", {.depth = 16});
  } catch (const Error& error) {
    throw RequestError({.code = "invalid_json"}, error.what());
  }
}

std::int64_t max_tokens_of(RequestFields& fields, CompletionKind kind) {
  const IntegerRange range{1, kMaxInteger};
  const auto tokens = fields.integer("max_tokens", range);
  if (kind == CompletionKind::text) return tokens.value_or(GenerationConfig{}.max_tokens);
  const auto newer = fields.integer("max_completion_tokens", range);
  if (tokens && newer && *tokens != *newer) {
    fields.wrong("max_completion_tokens", "equal to max_tokens, its older name", *newer);
  }
  return newer ? *newer : tokens.value_or(GenerationConfig{}.max_tokens);
}

GenerationConfig config_of(RequestFields& fields, CompletionKind kind) {
  GenerationConfig config;
  config.max_tokens = max_tokens_of(fields, kind);
  config.temperature = fields.number("temperature", {0, 2}).value_or(1);
  config.top_p = fields.number("top_p", {.low = 0, .high = 1, .above = true}).value_or(1);
  config.top_k = fields.integer("top_k", {0, kMaxInteger}).value_or(0);
  config.min_p = fields.number("min_p", {0, 1}).value_or(0);
  config.repetition_penalty = fields.number("repetition_penalty", {0.01, 100}).value_or(1);
  const auto seed = fields.integer("seed", {0, kMaxSeed});
  config.seed = seed ? static_cast<std::uint32_t>(*seed) : std::random_device{}();
  return config;
}

bool include_usage_of(RequestFields& fields, bool stream) {
  const json* value = fields.find("stream_options");
  if (value == nullptr) return false;
  if (!stream) fields.wrong("stream_options", "absent unless stream is true", *value);
  RequestFields options(*value, "stream_options");
  const bool wanted = options.flag("include_usage").value_or(false);
  options.accept_only("include_obfuscation", false);
  options.refuse_others();
  return wanted;
}

// Text parts are joined by newlines, as in vLLM and llama.cpp.
std::string content_of(const json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array() || content.empty()) {
    throw RequestError({.param = path, .code = "invalid_value"},
                       fmt::format("{} must be a string or an array of parts, got {}", path,
                                   json_excerpt(content)));
  }
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    RequestFields part(content[i], fmt::format("{}[{}]", path, i));
    part.accept_only("type", "text");
    part.required("text");
    if (i > 0) text += '\n';
    text += part.text("text").value();
    part.required("type");
    part.refuse_others();
  }
  return text;
}

ChatMessage message_of(const json& value, const std::string& path) {
  RequestFields fields(value, path);
  const json& role = fields.required("role");
  if (role != "system" && role != "user" && role != "assistant") {
    fields.wrong("role", "system, user or assistant", role);
  }
  ChatMessage message{role.get<std::string>(),
                      content_of(fields.required("content"), fields.path_of("content"))};
  fields.accept_only("tool_calls", json::array());
  fields.accept_only("annotations", json::array());
  fields.refuse_others();
  return message;
}

std::vector<ChatMessage> messages_of(RequestFields& fields) {
  const json& values = fields.required("messages");
  if (!values.is_array() || values.empty()) {
    fields.wrong("messages", "an array of at least one message", values);
  }
  std::vector<ChatMessage> messages;
  for (const json& value : values) {
    messages.push_back(message_of(value, fmt::format("messages[{}]", messages.size())));
  }
  return messages;
}

std::string prompt_of(RequestFields& fields) {
  const json& prompt = fields.required("prompt");
  if (!prompt.is_string() || prompt.get_ref<const std::string&>().empty()) {
    fields.wrong("prompt", "a non-empty string", prompt);
  }
  return prompt.get<std::string>();
}

// Accepts unsupported fields that would change the reply only with the value that has no effect.
void refuse_unsupported(RequestFields& fields, CompletionKind kind) {
  fields.accept_only("n", 1);
  fields.accept_only("presence_penalty", 0);
  fields.accept_only("frequency_penalty", 0);
  fields.accept_only("logit_bias", json::object());
  if (kind == CompletionKind::text) {
    fields.accept_only("logprobs", nullptr);
    fields.accept_only("echo", false);
    fields.accept_only("best_of", 1);
    fields.accept_only("suffix", "");
    return;
  }
  fields.accept_only("logprobs", false);
  fields.accept_only("top_logprobs", 0);
  fields.accept_only("tools", json::array());
  fields.accept_only("tool_choice", "none");
  fields.accept_only("functions", json::array());
  fields.accept_only("function_call", "none");
  fields.accept_only("response_format", json{{"type", "text"}});
  fields.accept_only("modalities", json::array({"text"}));
  fields.accept_only("store", false);
}

}  // namespace

CompletionRequest parse_completion_request(std::string_view body, CompletionKind kind) {
  const json value = parse_body(body);
  RequestFields fields(value);
  CompletionRequest request{.kind = kind};
  request.model = fields.text("model").value_or("");
  if (kind == CompletionKind::text) request.prompt = prompt_of(fields);
  if (kind == CompletionKind::chat) request.messages = messages_of(fields);
  request.config = config_of(fields, kind);
  request.stops = fields.texts("stop", {});
  request.stream = fields.flag("stream").value_or(false);
  request.include_usage = include_usage_of(fields, request.stream);
  refuse_unsupported(fields, kind);
  fields.ignore({"user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                 "parallel_tool_calls"});
  fields.refuse_others();
  return request;
}

}  // namespace clora
