// TokenizerSpec: the complete definition of a tokenizer, as plain values. The loaders
// (tokenizer.json, vocab.txt, GGUF metadata) fill it; Tokenizer checks it and builds its tables
// from it.
#pragma once

#include <cstddef>
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
  control = 3,       // special: cut out of the text only if special tokens are parsed
  user_defined = 4,  // cut out of every text before anything else
  unused = 5,
  byte = 6,  // <0xXX>: one raw byte
};

enum class TokenizerAlgorithm {
  byte_level_bpe,        // GPT-2: text is split by patterns, bytes are merged by rank
  sentencepiece_scores,  // Llama 2: characters are merged, the pair with the best score first
  sentencepiece_merges,  // the same text rules, but with a list of ranked merges
  word_piece,            // BERT: words are cut into the longest pieces of the vocabulary
};

enum class SpacePrefix {
  never,
  first_fragment,  // only at the beginning of the text
  every_fragment,  // also after each special token
};

struct TokenMerge {
  std::string left, right;
};

// How an added token (control or user-defined) is found in a text; by default, exactly as written.
// These are the fields of Hugging Face's AddedToken.
struct AddedTokenRules {
  bool normalized = false;   // matched in normalised form in the normalised text
  bool single_word = false;  // not adjacent to a word character
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it

  bool operator==(const AddedTokenRules&) const = default;
};

// How a WordPiece tokenizer normalises a text and cuts its words (BERT's rules, in their order).
struct WordPieceRules {
  bool clean_text = true;            // control characters are removed, white space becomes a space
  bool handle_chinese_chars = true;  // each ideograph is a word
  bool strip_accents = true;         // normal form D without nonspacing marks
  bool lowercase = true;
  std::string continuing_prefix = "##";  // marks the pieces that continue a word
  std::size_t max_word_chars = 100;      // a longer word is unknown
  bool decoder_cleanup = true;           // decoding puts no space before . ? ! and ,
  // The tokens below this id are pieces of words, those from it on are only added tokens. Absent:
  // all tokens are pieces.
  std::optional<std::int32_t> piece_count;
};

struct TokenizerSpec {
  std::string source = "tokenizer";  // used in messages
  TokenizerAlgorithm algorithm = TokenizerAlgorithm::byte_level_bpe;

  std::vector<std::string> tokens;  // [V]; byte-level tokens are spelled in GPT-2's alphabet
  std::vector<TokenType> types;     // [V], or empty: all normal
  std::vector<float> scores;        // [V], only for sentencepiece_scores
  std::vector<TokenMerge> merges;   // the first has the best rank
  std::unordered_map<std::int32_t, AddedTokenRules> added_rules;  // by id; absent: all false

  // Byte-level BPE: PCRE2 patterns; each splits the previous one's pieces into matches and gaps.
  std::vector<std::string> split_patterns;
  bool normalize_nfc = false;
  bool ignore_merges = false;      // a piece that is a token becomes it, regardless of the merges
  bool add_leading_space = false;  // a fragment that does not begin with a space gets one

  // SentencePiece: spaces become U+2581, and a dummy space may be prepended.
  SpacePrefix space_prefix = SpacePrefix::every_fragment;
  // tokenizer.json's Metaspace, a pre-tokeniser: spaces are marked after normalised added tokens
  // are cut out, and no dummy space is prepended to a space.
  bool metaspace = false;
  bool split_before_space = false;  // no token joins a space to the text before it
  bool fuse_unknown = true;         // adjacent unknown characters become one unknown token

  WordPieceRules word_piece;  // only for word_piece; its pieces are spelled as in vocab.txt

  std::optional<std::int32_t> bos, eos, unknown;  // bos of an encoder: [CLS] or <s>
  std::optional<std::int32_t> sep, pad, mask;     // of an encoder: [SEP] or </s>, ...
  bool add_bos = false;                           // the model expects bos before a text
  bool add_sep = false;                           // the model expects sep after a text
  std::vector<std::int32_t> end_of_generation;    // besides eos and the tokens known by name
  std::string chat_template;                      // Jinja text, empty: none
  std::string tool_chat_template;                 // the same for conversations with tools
};

// Splits "left right" into its two parts. Throws Error(invalid_file) if there are not two.
TokenMerge merge_from_text(std::string_view text, std::string_view source);

// Gives bos, sep, pad, mask and unknown the type control: the files of encoders that name their
// special tokens do not always say so of each.
void mark_special_tokens(TokenizerSpec& spec);

}  // namespace clora
