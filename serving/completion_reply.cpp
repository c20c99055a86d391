#include "serving/completion_reply.hpp"

#include <cmath>
#include <random>

namespace clora {
namespace {

using nlohmann::json;

json calls_json(const std::vector<ToolCall>& calls, bool indexed) {
  json list = json::array();
  for (const ToolCall& call : calls) {
    json entry{{"id", call.id},
               {"type", "function"},
               {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
    if (indexed) entry["index"] = list.size();
    list.push_back(std::move(entry));
  }
  return list;
}

// Of a reply; null: it begins without its prompt.
const PromptEcho* echo_of(const ReplyContext& context, std::size_t reply) {
  if (context.echoes.empty()) return nullptr;
  return &context.echoes[reply / static_cast<std::size_t>(context.choices)];
}

}  // namespace

CompletionReply::CompletionReply(ReplyContext context, std::size_t replies)
    : context_(std::move(context)) {
  for (std::size_t i = 0; i < replies; ++i) {
    const PromptEcho* echo = echo_of(context_, i);
    const std::string text = echo != nullptr ? echo->text : std::string();
    replies_.push_back({.reader = ToolCallReader(context_.call_form, context_.tools),
                        .offsets = TokenOffsets(text),
                        .text = text});
    if (echo == nullptr || !context_.logprobs) continue;
    Reply& reply = replies_.back();
    GeneratedToken first{.id = echo->first_id, .logprob = std::nan("")};
    const std::int64_t offset = reply.offsets.of_prompt(first.id, *context_.tokenizer);
    reply.tokens.push_back({std::move(first), offset});
  }
}

json CompletionReply::envelope(const char* object) const {
  return {{"id", context_.id},
          {"object", object},
          {"created", context_.created},
          {"model", context_.model},
          {"system_fingerprint", context_.fingerprint}};
}

json CompletionReply::chunk(std::size_t choice, json delta, const json& logprobs,
                            const json& reason) const {
  json result = envelope(is_chat() ? "chat.completion.chunk" : "text_completion");
  json entry{{"index", choice}, {"logprobs", logprobs}, {"finish_reason", reason}};
  if (is_chat()) {
    entry["delta"] = std::move(delta);
  } else {
    entry["text"] = std::move(delta);
  }
  result["choices"] = json::array({std::move(entry)});
  if (context_.include_usage) result["usage"] = nullptr;
  return result;
}

json CompletionReply::text_delta(const std::string& text) const {
  if (!is_chat()) return text;
  return text.empty() ? json::object() : json{{"content", text}};
}

json CompletionReply::logprobs_of(std::span<const PlacedToken> tokens) const {
  if (!context_.logprobs) return nullptr;
  if (!is_chat()) return text_logprobs(tokens, *context_.tokenizer);
  std::vector<GeneratedToken> plain;
  for (const PlacedToken& each : tokens) plain.push_back(each.token);
  return chat_logprobs(plain, *context_.tokenizer);
}

void CompletionReply::add_tokens(Reply& reply, const GenerationEvent& event) const {
  if (!context_.logprobs) return;
  for (const GeneratedToken& token : event.prompt_logprobs) {
    reply.tokens.push_back({token, reply.offsets.of_prompt(token.id, *context_.tokenizer)});
  }
  for (const GeneratedToken& token : event.tokens) {
    reply.tokens.push_back({token, reply.offsets.of_reply(token.id, *context_.tokenizer)});
  }
}

std::vector<json> CompletionReply::begin() {
  std::vector<json> chunks;
  for (std::size_t i = 0; i < replies_.size(); ++i) {
    if (is_chat()) {
      chunks.push_back(chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr));
    } else if (!replies_[i].text.empty() || !replies_[i].tokens.empty()) {
      chunks.push_back(chunk(i, replies_[i].text, logprobs_of(replies_[i].tokens), nullptr));
    }
  }
  return chunks;
}

std::vector<json> CompletionReply::push(const ChoiceEvent& event) {
  Reply& reply = replies_.at(event.choice);
  std::string text = reply.reader.push(event.event.text);
  const bool last = event.event.finish_reason.has_value();
  const std::size_t calls_before = reply.calls.size();
  if (last) text += finish(reply, event.event);
  reply.text += text;
  const std::size_t tokens_before = reply.tokens.size();
  add_tokens(reply, event.event);
  const auto tokens = std::span(reply.tokens).subspan(tokens_before);
  std::vector<json> chunks;
  if (!text.empty() || !tokens.empty()) {
    chunks.push_back(chunk(event.choice, text_delta(text), logprobs_of(tokens), nullptr));
  }
  if (reply.calls.size() > calls_before) {
    chunks.push_back(
        chunk(event.choice, {{"tool_calls", calls_json(reply.calls, true)}}, nullptr, nullptr));
  }
  if (last) chunks.push_back(chunk(event.choice, text_delta(""), nullptr, reply.finish_reason));
  return chunks;
}

// Returns the last text of the reply.
std::string CompletionReply::finish(Reply& reply, const GenerationEvent& event) {
  auto [content, calls] = reply.reader.finish();
  if (!context_.parallel_tool_calls && calls.size() > 1) calls.resize(1);
  reply.calls = std::move(calls);
  reply.finish_reason = reply.calls.empty() ? name_of(*event.finish_reason) : "tool_calls";
  reply.usage = {.prompt = event.prompt_tokens,
                 .cached = event.cached_tokens,
                 .generated = event.generated_tokens};
  ++finished_;
  return std::move(content);
}

json CompletionReply::message_of(const Reply& reply) const {
  const bool only_calls = reply.text.empty() && !reply.calls.empty();
  json message{{"role", "assistant"},
               {"content", only_calls ? json(nullptr) : json(reply.text)},
               {"refusal", nullptr}};
  if (!reply.calls.empty()) message["tool_calls"] = calls_json(reply.calls, false);
  return message;
}

json CompletionReply::choice_of(std::size_t index) const {
  const Reply& reply = replies_[index];
  json choice{{"index", index},
              {"logprobs", logprobs_of(reply.tokens)},
              {"finish_reason", reply.finish_reason}};
  if (is_chat()) {
    choice["message"] = message_of(reply);
  } else {
    choice["text"] = reply.text;
  }
  return choice;
}

json CompletionReply::complete() const {
  json result = envelope(is_chat() ? "chat.completion" : "text_completion");
  result["choices"] = json::array();
  for (std::size_t i = 0; i < replies_.size(); ++i) result["choices"].push_back(choice_of(i));
  result["usage"] = usage_json();
  return result;
}

TokenUsage CompletionReply::usage() const {
  TokenUsage sum;
  for (std::size_t i = 0; i < replies_.size(); ++i) {
    const TokenUsage& usage = replies_[i].usage;
    sum.generated += usage.generated;
    if (i % static_cast<std::size_t>(context_.choices) != 0) continue;
    sum.prompt += usage.prompt;
    sum.cached += usage.cached;
  }
  return sum;
}

json CompletionReply::usage_json() const {
  const TokenUsage sum = usage();
  return {{"prompt_tokens", sum.prompt},
          {"completion_tokens", sum.generated},
          {"total_tokens", sum.prompt + sum.generated},
          {"prompt_tokens_details", {{"cached_tokens", sum.cached}}}};
}

std::vector<json> CompletionReply::end() const {
  if (!context_.include_usage) return {};
  json usage = envelope(is_chat() ? "chat.completion.chunk" : "text_completion");
  usage["choices"] = json::array();
  usage["usage"] = usage_json();
  return {std::move(usage)};
}

std::string random_completion_id(CompletionKind kind) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device random;
  std::string id = kind == CompletionKind::chat ? "chatcmpl-" : "cmpl-";
  for (int i = 0; i < 24; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

}  // namespace clora
