// Tokenizer: text <-> token ids, as defined by the model's files. It supports byte-level BPE,
// SentencePiece-style and WordPiece vocabularies, and is built from a TokenizerSpec, which the
// loaders fill. A cheap handle to immutable tables: copies share them, and every call is
// thread-safe.
// StreamDecoder, below, turns tokens into text as they arrive; one per stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/text/tokenizer_spec.hpp"

namespace clora {

// Whether bos precedes a text, and whether sep follows it if the model expects one ([CLS] text
// [SEP]). `no` adds neither, and `yes` adds both.
enum class AddBos { model_default, no, yes };

struct EncodeOptions {
  // The text of a control token (<|im_end|>) becomes that token; else it is plain text. Tokens that
  // the model's files add as user-defined are always cut out.
  bool parse_special = false;
  AddBos add_bos = AddBos::model_default;  // REQUIRES for yes: the model has a bos token
  // Other text precedes this one: by default no bos and no sep, and no dummy space.
  bool continues = false;
  bool after_special = false;  // that text ends in a special token: dummy space if one follows it
};

struct DecodeOptions {
  bool keep_special = false;  // control tokens decode to their text, else to nothing
  bool continues = false;     // other text precedes: the dummy leading space is not removed
};

// The first tokens of a text, and the number of its tokens that were cut off.
struct CutText {
  std::vector<std::int32_t> ids;
  std::size_t cut = 0;
};

// A part of a text: an added token that is extracted before the text is tokenised, or what is
// between two of them.
struct TextPart {
  std::size_t begin = 0, end = 0;  // in bytes, with the white space that the token takes
  std::int32_t special = -1;       // the token; -1: plain text
  std::size_t token_end = 0;       // the end of the token's own text
};

class Tokenizer {
 public:
  // Throws Error(invalid_file) if the parts are inconsistent.
  explicit Tokenizer(TokenizerSpec spec);

  // Bytes that are not valid UTF-8 are kept, or are replaced (see the headers of the algorithms).
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Returns the parts of a text, in order and without gaps. A control token is extracted where
  // `is_parsed` holds for its bytes [begin, end); encode() finds those that are matched only after
  // normalisation. encode() of each part, with `continues` and `after_special` as they are, gives
  // the tokens of the text.
  std::vector<TextPart> parts_of(
      std::string_view text, const std::function<bool(std::size_t, std::size_t)>& is_parsed) const;

  // encode() with at most `max_tokens` tokens: the text loses its last ones, but keeps sep.
  // REQUIRES: room for one token of the text besides bos and sep.
  CutText encode_at_most(std::string_view text, std::size_t max_tokens,
                         const EncodeOptions& options = {}) const;

  // Returns the bytes of the tokens, which may be invalid UTF-8 (see StreamDecoder, utf8.hpp).
  // Throws Error(invalid_argument) for an id outside of the vocabulary.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const;

  std::int32_t vocabulary_size() const;
  // As in the model's files; the pieces of WordPiece as in vocab.txt, also from GGUF.
  const std::string& token_text(std::int32_t id) const;
  const std::string& token_bytes(std::int32_t id) const;
  std::optional<std::int32_t> id_of(std::string_view token_text) const;
  bool is_special(std::int32_t id) const;
  // Returns the first control token in a text that encode() cuts out only with parse_special.
  std::optional<std::int32_t> first_special(std::string_view text) const;

  std::optional<std::int32_t> bos() const;
  std::optional<std::int32_t> eos() const;
  std::optional<std::int32_t> sep() const;  // of an encoder
  bool adds_bos() const;                    // the model expects bos before a text
  bool adds_sep() const;                    // the model expects sep after a text

  // True iff the model ends its answer with this token: eos, and tokens such as <|im_end|>,
  // <|eot_id|>, </s>, <|endoftext|>.
  bool ends_generation(std::int32_t id) const;
  const std::vector<std::int32_t>& end_of_generation() const;  // sorted

  const std::string& chat_template() const;  // Jinja text, empty if the files hold none
  // The one named "tool_use", for conversations with tools; empty if the files hold no such one.
  const std::string& tool_chat_template() const;

 private:
  struct Tables;
  std::shared_ptr<const Tables> tables_;
};

// Decodes a stream of tokens into complete characters. Bytes that can never become valid UTF-8 are
// replaced by U+FFFD, so each returned string is valid. Holds a copy of the tokenizer handle.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool keep_special = false);

  std::string push(std::int32_t id);  // the text that is complete, possibly empty
  std::string finish();               // the text held back; resets the decoder

 private:
  Tokenizer tokenizer_;
  bool keep_special_;
  std::string held_;
};

}  // namespace clora
