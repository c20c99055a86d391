// TokenizerSpec: everything that makes a tokenizer, as plain values. The loaders (tokenizer.json,
// GGUF metadata) fill it; Tokenizer checks it and builds its tables from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace clora {

// The values are those of GGUF's tokenizer.ggml.token_type.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,       // special: cut out of the text only where special tokens are parsed
  user_defined = 4,  // cut out of every text before anything else
  unused = 5,
  byte = 6,  // <0xXX>: one raw byte
};

enum class TokenizerAlgorithm {
  byte_level_bpe,        // GPT-2: text is split by patterns, bytes are merged by rank
  sentencepiece_scores,  // Llama 2: characters are merged, the pair of the best score first
  sentencepiece_merges,  // the same text rules, but with a list of merges and their ranks
};

enum class SpacePrefix {
  never,
  first_fragment,  // only where the text begins
  every_fragment,  // also after each special token
};

struct TokenMerge {
  std::string left, right;
};

// How an added token (control or user-defined) is found in a text, where that is not simply as it
// is written: Hugging Face's AddedToken.
struct AddedTokenRules {
  bool normalized = false;   // in the normalised text, by its own normalised text
  bool single_word = false;  // not next to a character of a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it

  bool operator==(const AddedTokenRules&) const = default;
};

struct TokenizerSpec {
  std::string source = "tokenizer";  // named in messages
  TokenizerAlgorithm algorithm = TokenizerAlgorithm::byte_level_bpe;

  std::vector<std::string> tokens;  // [V]; byte-level tokens are written in GPT-2's alphabet
  std::vector<TokenType> types;     // [V], or empty: all normal
  std::vector<float> scores;        // [V], sentencepiece_scores only
  std::vector<TokenMerge> merges;   // the first has the best rank
  std::unordered_map<std::int32_t, AddedTokenRules> added_rules;  // by id; absent: all false

  // Byte-level BPE: PCRE2 patterns; each splits the pieces of the one before into matches and gaps.
  std::vector<std::string> split_patterns;
  bool normalize_nfc = false;
  bool ignore_merges = false;      // a piece that is a token is that token, whatever the merges say
  bool add_leading_space = false;  // a fragment that does not begin with a space gets one

  // SentencePiece: spaces become U+2581, and a dummy one may be put in front.
  SpacePrefix space_prefix = SpacePrefix::every_fragment;
  // tokenizer.json's Metaspace, a pre-tokeniser: spaces are marked after normalised added tokens
  // are cut out, and no dummy space is put before a space.
  bool metaspace = false;
  bool split_before_space = false;  // no token joins a space to what stands before it
  bool fuse_unknown = true;         // neighbouring unknown characters become one unknown token

  std::optional<std::int32_t> bos, eos, unknown;
  bool add_bos = false;                         // the model expects bos in front of a text
  std::vector<std::int32_t> end_of_generation;  // besides eos and the tokens known by name
  std::string chat_template;                    // Jinja text, empty: none
};

// The split patterns of a pre-tokeniser by its GGUF name (tokenizer.ggml.pre: "gpt-2", "smollm",
// "qwen2", "llama-bpe", ...). Throws Error(unsupported) that names the known ones.
std::vector<std::string> split_patterns_of(std::string_view pre_tokenizer);

// "left right" -> its two parts. Throws Error(invalid_file) where there is no space between two.
TokenMerge merge_from_text(std::string_view text, std::string_view source);

// The pattern that tokenizer.json means by ByteLevel with use_regex, and Digits one by one.
std::string gpt2_split_pattern();
std::string single_digit_pattern();

}  // namespace clora
