#include "model/text/tokenizer_gguf_writing.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "clora/model/text/tokenizer.hpp"
#include "model/text/merge_table.hpp"
#include "model/text/pre_tokenizers.hpp"
#include "model/text/vocabulary.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string key(std::string_view name) { return fmt::format("{}{}", kPrefix, name); }

void put_id(GgufMetadata& metadata, std::string_view name, std::optional<std::int32_t> id) {
  if (id) metadata.set_uint32(key(name), static_cast<std::uint32_t>(*id));
}

// The spec with as many tokens as the vocabulary.
TokenizerSpec padded(TokenizerSpec spec, std::int64_t vocabulary) {
  const auto count = static_cast<std::size_t>(vocabulary);
  if (spec.tokens.size() > count)
    fail(ErrorCode::unsupported,
         "{}: has {} tokens, but the model's embeddings have {} rows; a GGUF file needs a row for "
         "each token",
         spec.source, spec.tokens.size(), vocabulary);
  if (spec.types.empty()) spec.types.assign(spec.tokens.size(), TokenType::normal);
  for (std::size_t id = 0; id < spec.types.size(); ++id) {  // ids that tokenizer.json leaves out
    if (spec.tokens[id].empty()) spec.tokens[id] = fmt::format("[PAD{}]", id);
  }
  while (spec.tokens.size() < count) {
    spec.tokens.push_back(fmt::format("[PAD{}]", spec.tokens.size()));
    spec.types.push_back(TokenType::unused);
  }
  return spec;
}

void write_tokens(GgufMetadata& metadata, const TokenizerSpec& spec) {
  metadata.set_texts(key("tokens"), spec.tokens);
  std::vector<std::int32_t> types;
  for (const TokenType type : spec.types) types.push_back(static_cast<std::int32_t>(type));
  metadata.set_int32s(key("token_type"), types);
}

// The name of the first pre-tokeniser with the spec's rules.
std::string_view pre_tokenizer_name(const TokenizerSpec& spec) {
  // Of the names with the same rules but for bos, which has a key of its own, this one sets
  // ignore_merges in llama.cpp.
  constexpr std::string_view kPreferred = "llama-bpe";
  std::vector<std::string_view> names = pre_tokenizer_names();
  names.insert(names.begin(), kPreferred);
  for (const std::string_view name : names) {
    const PreTokenizer pre = pre_tokenizer_of(name);
    if (pre.patterns == spec.split_patterns && pre.normalize_nfc == spec.normalize_nfc &&
        pre.ignore_merges == spec.ignore_merges) {
      return name;
    }
  }
  fail(ErrorCode::unsupported,
       "{}: GGUF has no name (tokenizer.ggml.pre) for the rules by which it splits texts, known "
       "to this program: {}",
       spec.source, fmt::join(pre_tokenizer_names(), ", "));
}

void write_byte_level(GgufMetadata& metadata, const TokenizerSpec& spec) {
  metadata.set_text(key("model"), "gpt2");
  metadata.set_text(key("pre"), pre_tokenizer_name(spec));
  write_tokens(metadata, spec);
  std::vector<std::string> merges;
  for (const TokenMerge& merge : spec.merges) {
    merges.push_back(fmt::format("{} {}", merge.left, merge.right));
  }
  metadata.set_texts(key("merges"), merges);
  metadata.set_boolean(key("add_space_prefix"), spec.add_leading_space);
}

// The score of a token that merges make is minus the rank of the first of them.
std::vector<float> scores_by_rank(const TokenizerSpec& spec) {
  std::unordered_map<std::string, std::size_t> ranks;
  for (std::size_t rank = 0; rank < spec.merges.size(); ++rank) {
    ranks.emplace(spec.merges[rank].left + spec.merges[rank].right, rank);
  }
  std::vector<float> scores;
  for (const std::string& token : spec.tokens) {
    const auto at = ranks.find(token);
    scores.push_back(at == ranks.end() ? 0.0F : -static_cast<float>(at->second));
  }
  return scores;
}

// Whether the order of the merges is that of their results' scores, but for merges into one token.
bool are_in_order_of_scores(const TokenizerSpec& spec, const std::vector<float>& scores) {
  std::unordered_map<std::string_view, float> score_of;
  for (std::size_t id = 0; id < scores.size(); ++id) score_of[spec.tokens[id]] = scores[id];
  float before = 1;
  for (const TokenMerge& merge : spec.merges) {
    const auto at = score_of.find(merge.left + merge.right);
    if (at == score_of.end() || at->second > before) return false;
    before = at->second;
  }
  return true;
}

// Whether the scores merge further pairs: all whose result is a token, while a vocabulary that was
// not made from scores may have one pair for each token.
bool scores_merge_more(const TokenizerSpec& spec) {
  TokenizerSpec copy = spec;  // Vocabulary moves the tokens out
  return merges_by_score(scores_by_rank(spec), Vocabulary(copy)).size() > spec.merges.size();
}

// llama.cpp expects the unknown token to have its type.
TokenizerSpec with_unknown_type(TokenizerSpec spec) {
  if (spec.unknown) spec.types[static_cast<std::size_t>(*spec.unknown)] = TokenType::unknown;
  return spec;
}

void write_sentencepiece(GgufMetadata& metadata, const TokenizerSpec& spec) {
  const bool has_scores = spec.algorithm == TokenizerAlgorithm::sentencepiece_scores;
  const std::vector<float> scores = has_scores ? spec.scores : scores_by_rank(spec);
  if (!has_scores && !are_in_order_of_scores(spec, scores))
    fail(ErrorCode::unsupported,
         "{}: its merges are not the order of scores of tokens, which a GGUF file of this kind of "
         "tokenizer holds",
         spec.source);
  metadata.set_text(key("model"), "llama");
  metadata.set_text(key("pre"), "default");
  write_tokens(metadata, with_unknown_type(spec));
  metadata.set_float32s(key("scores"), scores);
  metadata.set_boolean(key("add_space_prefix"), spec.space_prefix != SpacePrefix::never);
}

void write_special_tokens(GgufMetadata& metadata, const TokenizerSpec& spec) {
  put_id(metadata, "bos_token_id", spec.bos);
  put_id(metadata, "eos_token_id", spec.eos);
  put_id(metadata, "unknown_token_id", spec.unknown);
  put_id(metadata, "padding_token_id", spec.pad);
  std::vector<std::int32_t> ends = spec.end_of_generation;
  if (spec.eos) std::erase(ends, *spec.eos);
  if (!ends.empty()) put_id(metadata, "eot_token_id", ends.front());
  if (ends.size() > 1) put_id(metadata, "eom_token_id", ends[1]);
  metadata.set_boolean(key("add_bos_token"), spec.add_bos);
  if (!spec.chat_template.empty()) {
    metadata.set_text("tokenizer.chat_template", spec.chat_template);
  }
  if (spec.tool_chat_template.empty()) return;
  metadata.set_texts("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});
  metadata.set_text("tokenizer.chat_template.tool_use", spec.tool_chat_template);
}

// Words, numbers, white space, symbols and scripts that pre-tokenisers and merges treat
// differently.
constexpr std::array<std::string_view, 14> kTexts = {
    "Hello, world!",
    " leading and trailing ",
    "two  spaces,   three\tand tabs\t\t",
    "lines\nand\n\nempty lines\r\n\r\n",
    "It's they're WE'LL I'd 'quoted'",
    "1 12 123 1234 12345 3.14159 1,000,000",
    "x = (a[i] + b[j]) * c->d; // comment",
    "https://example.com/path?query=1&x=y#z",
    "naïve café über Straße Ærø",
    "Привет мир. Γειά σου Κόσμε.",
    "你好,世界。こんにちは世界 안녕하세요",
    "ภาษาไทย हिन्दी العربية עברית",
    "😀👩‍👩‍👧‍👦🇩🇪 ∑∞≠ ½²",
    "CamelCaseWord snake_case_word kebab-case-word",
};

}  // namespace

void write_gguf_tokenizer(GgufMetadata& metadata, const TokenizerSpec& spec,
                          std::int64_t vocabulary) {
  if (spec.algorithm == TokenizerAlgorithm::word_piece)
    fail(ErrorCode::unsupported, "{}: word pieces cannot be written as GGUF", spec.source);
  const TokenizerSpec full = padded(spec, vocabulary);
  if (full.algorithm == TokenizerAlgorithm::byte_level_bpe) {
    write_byte_level(metadata, full);
  } else {
    write_sentencepiece(metadata, full);
  }
  write_special_tokens(metadata, full);
}

std::string require_same_tokens(const TokenizerSpec& expected, const TokenizerSpec& written) {
  const EncodeOptions parse{.parse_special = true};
  const Tokenizer one{expected}, other{written};
  const auto refuse = [&](std::string_view what) {
    fail(ErrorCode::unsupported,
         "{}: the tokenizer cannot be written as GGUF: it would give other {}", expected.source,
         what);
  };
  const bool merges_more =
      expected.algorithm == TokenizerAlgorithm::sentencepiece_merges && scores_merge_more(expected);
  std::size_t differing = 0;
  for (const std::string_view text : kTexts) {
    if (one.encode(text) == other.encode(text)) continue;
    if (!merges_more) refuse(fmt::format("tokens for '{}'", text));
    ++differing;
  }
  std::string all;  // of the special tokens, with text between them
  for (std::int32_t id = 0; id < one.vocabulary_size(); ++id) {
    if (!one.is_special(id)) continue;
    const std::string& token = one.token_text(id);
    if (one.encode(token, parse) != other.encode(token, parse)) {
      refuse(fmt::format("tokens for '{}'", token));
    }
    all += token + "a ";
  }
  if (one.end_of_generation() != other.end_of_generation()) refuse("ends of a reply");
  if (one.bos() != other.bos() || one.adds_bos() != other.adds_bos()) refuse("first tokens");
  if (one.chat_template() != other.chat_template()) refuse("prompts of a chat");
  if (merges_more)
    return fmt::format(
        "{}: a GGUF file has scores in place of merges, which merge further pairs of tokens; texts "
        "may get other tokens ({} of {} texts do)",
        expected.source, differing, kTexts.size());
  if (one.encode(all, parse) == other.encode(all, parse)) return {};
  return fmt::format(
      "{}: text between special tokens has other tokens in the GGUF file, which cannot say where a "
      "space is put before a text",
      expected.source);
}

}  // namespace clora
