#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "clora/model/text/tokenizer_spec.hpp"
#include "runtime/fail.hpp"

namespace clora {

namespace {

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// The patterns of llama.cpp for a vocabulary that names no pre-tokeniser.
constexpr std::array<const char*, 4> kDefault = {
    R"([\p{P}\$\+<=>\^~\|]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))", R"(\p{N}+)",
    R"([0-9][0-9][0-9])"};
constexpr const char* kSingleDigit = R"(\p{N})";

// Llama 3 and Qwen2 differ only in the maximum number of digits in a piece.
std::string word_pattern(std::string_view digits) {
  return fmt::format(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{}|)"
                     R"( ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                     digits);
}

template <std::size_t N>
bool one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Several releases and families use the same pattern under different names.
constexpr std::array<std::string_view, 2> kGpt2Names = {"gpt-2", "gpt2"};
constexpr std::array<std::string_view, 1> kSmolLmNames = {"smollm"};
constexpr std::array<std::string_view, 3> kLlama3Names = {"llama-bpe", "llama3", "llama-v3"};
constexpr std::array<std::string_view, 2> kQwen2Names = {"qwen2", "deepseek-r1-qwen"};

}  // namespace

TokenMerge merge_from_text(std::string_view text, std::string_view source) {
  const std::size_t space = text.find(' ', 1);  // a part is never empty
  if (space == std::string_view::npos || space + 1 == text.size()) {
    fail(ErrorCode::invalid_file, "{}: a merge must be two tokens separated by a space, got '{}'",
         source, text);
  }
  return {std::string(text.substr(0, space)), std::string(text.substr(space + 1))};
}

void mark_special_tokens(TokenizerSpec& spec) {
  if (spec.types.empty()) spec.types.assign(spec.tokens.size(), TokenType::normal);
  for (const auto& id : {spec.bos, spec.sep, spec.pad, spec.mask, spec.unknown}) {
    if (id && static_cast<std::size_t>(*id) < spec.types.size()) {
      spec.types[static_cast<std::size_t>(*id)] = TokenType::control;
    }
  }
}

std::string gpt2_split_pattern() { return kGpt2; }
std::string single_digit_pattern() { return kSingleDigit; }

std::vector<std::string> split_patterns_of(std::string_view pre_tokenizer) {
  if (pre_tokenizer == "default") return {kDefault.begin(), kDefault.end()};
  if (one_of(pre_tokenizer, kGpt2Names)) return {kGpt2};
  if (one_of(pre_tokenizer, kSmolLmNames)) return {kSingleDigit, kGpt2};
  if (one_of(pre_tokenizer, kLlama3Names)) return {word_pattern(R"(\p{N}{1,3})")};
  if (one_of(pre_tokenizer, kQwen2Names)) return {word_pattern(R"(\p{N})")};
  fail(ErrorCode::unsupported,
       "tokenizer: unknown pre-tokeniser '{}'; known pre-tokenisers: default, gpt-2, smollm, "
       "llama-bpe, qwen2",
       pre_tokenizer);
}

}  // namespace clora
