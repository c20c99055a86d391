#include "serving/reply_logprobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/text/utf8.hpp"

namespace clora {
namespace {

using nlohmann::json;

// A token's text. Bytes that are no UTF-8, since a character may be of several tokens, become
// U+FFFD when JSON is written; the form of chats has the bytes as well.
std::string text_of(std::int32_t id, const Tokenizer& tokenizer) {
  return tokenizer.is_special(id) ? tokenizer.token_text(id) : tokenizer.token_bytes(id);
}

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char read = read_utf8(text, at);
    if (read.code_point < 0) return false;
    at += read.length;
  }
  return true;
}

// A name of a token that differs from those of all others: the form of completions uses it as a
// key. Bytes that are no UTF-8 are written as OpenAI does: bytes:\xe2\x80.
std::string name_of_token(std::int32_t id, const Tokenizer& tokenizer) {
  const std::string text = text_of(id, tokenizer);
  if (is_utf8(text)) return text;
  std::string name = "bytes:";
  for (const char c : text) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

json described(std::int32_t id, double logprob, const Tokenizer& tokenizer) {
  const std::string text = text_of(id, tokenizer);
  json bytes = json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", text}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

std::int64_t characters_in(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace

json chat_logprobs(std::span<const GeneratedToken> tokens, const Tokenizer& tokenizer) {
  json content = json::array();
  for (const GeneratedToken& token : tokens) {
    json entry = described(token.id, token.logprob, tokenizer);
    entry["top_logprobs"] = json::array();
    for (const auto& [id, logprob] : token.top_logprobs) {
      entry["top_logprobs"].push_back(described(id, logprob, tokenizer));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json text_logprobs(std::span<const PlacedToken> tokens, const Tokenizer& tokenizer) {
  json result{{"tokens", json::array()},
              {"token_logprobs", json::array()},
              {"top_logprobs", json::array()},
              {"text_offset", json::array()}};
  for (const auto& [token, offset] : tokens) {
    const bool has_logprob = !std::isnan(token.logprob);
    result["tokens"].push_back(name_of_token(token.id, tokenizer));
    result["token_logprobs"].push_back(has_logprob ? json(token.logprob) : json());
    json top = has_logprob ? json::object() : json();
    for (const auto& [id, logprob] : token.top_logprobs)
      top[name_of_token(id, tokenizer)] = logprob;
    result["top_logprobs"].push_back(std::move(top));
    result["text_offset"].push_back(offset);
  }
  return result;
}

std::int64_t TokenOffsets::of_prompt(std::int32_t id, const Tokenizer& tokenizer) {
  const std::int64_t offset = characters_;
  const std::string_view rest = std::string_view(prompt_).substr(at_);
  const std::string own = text_of(id, tokenizer);
  std::string_view text = own;
  if (!rest.starts_with(text)) {
    if (tokenizer.is_special(id)) text = {};
    // The space that some tokenizers add to a text.
    if (text.starts_with(' ') && rest.starts_with(text.substr(1))) text.remove_prefix(1);
  }
  characters_ += characters_in(text);
  at_ = std::min(at_ + text.size(), prompt_.size());
  return offset;
}

std::int64_t TokenOffsets::of_reply(std::int32_t id, const Tokenizer& tokenizer) {
  if (!std::exchange(in_reply_, true)) characters_ = characters_in(prompt_);
  const std::int64_t offset = characters_;
  if (!tokenizer.is_special(id)) characters_ += characters_in(text_of(id, tokenizer));
  return offset;
}

}  // namespace clora
