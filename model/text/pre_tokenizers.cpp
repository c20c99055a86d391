// The patterns are those of tokenizer.json. llama.cpp replaces classes of letters that its engine
// lacks by ranges of ASCII, so that it splits some words of other scripts elsewhere.
#include "model/text/pre_tokenizers.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kSingleDigit = R"(\p{N})";

// The patterns of llama.cpp for a vocabulary that names no pre-tokeniser.
constexpr std::array<const char*, 4> kDefault = {
    R"([\p{P}\$\+<=>\^~\|]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))", R"(\p{N}+)",
    R"([0-9][0-9][0-9])"};

// The pieces that the patterns after GPT-2's consist of.
constexpr std::string_view kContractions = R"((?i:'s|'t|'re|'ve|'m|'ll|'d))";
constexpr std::string_view kWord = R"([^\r\n\p{L}\p{N}]?\p{L}+)";
constexpr std::string_view kOneDigit = R"(\p{N})";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kSymbols = R"( ?[^\s\p{L}\p{N}]+)";
constexpr std::string_view kSymbolsAndLines = R"( ?[^\s\p{L}\p{N}]+[\r\n]*)";
constexpr std::string_view kSpaces = R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
// A word ends before a capital letter that follows a small one.
constexpr std::string_view kCapital = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])";
constexpr std::string_view kSmall = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";

std::string alternatives(std::initializer_list<std::string_view> all) {
  return fmt::format("{}", fmt::join(all, "|"));
}

std::string cased_pattern(std::string_view word_end, std::string_view digits) {
  const auto word = [&](char capitals, char smalls) {
    return fmt::format(R"([^\r\n\p{{L}}\p{{N}}]?{}{}{}{}{})", kCapital, capitals, kSmall, smalls,
                       word_end);
  };
  const std::string symbols = fmt::format(R"({}[\r\n/]*)", kSymbols);
  return alternatives({word('*', '+'), word('+', '*'), digits, symbols, kSpaces});
}

PreTokenizer by_default() { return {.patterns = {kDefault.begin(), kDefault.end()}}; }
PreTokenizer gpt2() { return {.patterns = {kGpt2}}; }
PreTokenizer smollm() { return {.patterns = {kSingleDigit, kGpt2}}; }

PreTokenizer cl100k() {
  return {
      .patterns = {alternatives({kContractions, kWord, kThreeDigits, kSymbolsAndLines, kSpaces})}};
}

PreTokenizer llama3() {
  PreTokenizer result = cl100k();
  result.ignore_merges = result.add_bos = true;
  return result;
}

PreTokenizer qwen2() {
  return {.patterns = {alternatives({kContractions, kWord, kOneDigit, kSymbolsAndLines, kSpaces})},
          .normalize_nfc = true};
}

// Marks belong to words.
PreTokenizer qwen35() {
  return {.patterns = {alternatives({kContractions, R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+)", kOneDigit,
                                     R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)", kSpaces})},
          .normalize_nfc = true};
}

PreTokenizer seed() {
  return {.patterns = {alternatives({kContractions, kWord, kOneDigit, kSymbols, kSpaces})}};
}

PreTokenizer o200k() {
  return {.patterns = {cased_pattern(fmt::format("{}?", kContractions), kThreeDigits)}};
}

PreTokenizer tekken() {
  return {.patterns = {cased_pattern("", kOneDigit)}, .ignore_merges = true, .add_bos = true};
}

struct NamedPreTokenizer {
  std::string_view name;
  PreTokenizer (*make)();
};

// Several releases and families use the same pre-tokeniser under different names.
constexpr std::array kPreTokenizers = {
    NamedPreTokenizer{"default", by_default},
    NamedPreTokenizer{"gpt-2", gpt2},
    NamedPreTokenizer{"gpt2", gpt2},
    NamedPreTokenizer{"granite-docling", gpt2},
    NamedPreTokenizer{"mpt", gpt2},
    NamedPreTokenizer{"olmo", gpt2},
    NamedPreTokenizer{"phi-2", gpt2},
    NamedPreTokenizer{"smollm", smollm},
    NamedPreTokenizer{"refact", smollm},  // Granite 3
    NamedPreTokenizer{"starcoder", smollm},
    NamedPreTokenizer{"dbrx", cl100k},  // Granite 4, Phi-4
    NamedPreTokenizer{"smaug-bpe", cl100k},
    NamedPreTokenizer{"llama-bpe", llama3},  // also SmolLM3
    NamedPreTokenizer{"llama3", llama3},
    NamedPreTokenizer{"llama-v3", llama3},
    NamedPreTokenizer{"lfm2", llama3},
    NamedPreTokenizer{"qwen2", qwen2},  // also Qwen2.5 and Qwen3
    NamedPreTokenizer{"deepseek-r1-qwen", qwen2},
    NamedPreTokenizer{"qwen35", qwen35},
    NamedPreTokenizer{"seed-coder", seed},  // also Seed-OSS
    NamedPreTokenizer{"gpt-4o", o200k},     // also Phi-4-mini
    NamedPreTokenizer{"tekken", tekken},    // Mistral NeMo, Ministral
};

}  // namespace

std::string gpt2_split_pattern() { return kGpt2; }
std::string single_digit_pattern() { return kSingleDigit; }

PreTokenizer pre_tokenizer_of(std::string_view name) {
  const auto* found = std::ranges::find(kPreTokenizers, name, &NamedPreTokenizer::name);
  if (found == kPreTokenizers.end())
    fail(ErrorCode::unsupported,
         "tokenizer: unknown pre-tokeniser '{}' (tokenizer.ggml.pre); known pre-tokenisers: {}",
         name, fmt::join(pre_tokenizer_names(), ", "));
  return found->make();
}

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const NamedPreTokenizer& each : kPreTokenizers) names.push_back(each.name);
  return names;
}

bool leaves_no_gap(std::string_view pattern) {
  return std::ranges::any_of(kPreTokenizers, [&](const NamedPreTokenizer& each) {
    return each.make != by_default && each.make().patterns.back() == pattern;
  });
}

}  // namespace clora
