// Tokenizer: text <-> token ids, as the model's own files define it. Byte-level BPE and
// SentencePiece-style vocabularies; built from a TokenizerSpec, which the loaders below fill.
// A cheap handle to immutable tables: copies share them, and every call is thread-safe.
// StreamDecoder, at the end, turns tokens into text while they arrive; one a stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/tokenizer_spec.hpp"

namespace clora {

enum class AddBos { model_default, no, yes };

struct EncodeOptions {
  // Text of control tokens (<|im_end|>) becomes these tokens; else it is text like any other.
  // Tokens that the model's files add as user-defined are always cut out.
  bool parse_special = false;
  AddBos add_bos = AddBos::model_default;  // REQUIRES for yes: the model has a bos token
  bool continues = false;  // text stands before this one: no bos by default, no dummy space
  bool after_special =
      false;  // that text ends in a special token: a dummy space where one follows it
};

struct DecodeOptions {
  bool keep_special = false;  // control tokens give their text, else nothing
  bool continues = false;     // text stands before: the dummy leading space is not taken off
};

class Tokenizer {
 public:
  // Throws Error(invalid_file) where the parts do not fit one another.
  explicit Tokenizer(TokenizerSpec spec);

  // Bytes that are not valid UTF-8 are kept as they are (see the algorithms' headers).
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes of the tokens, which need not be valid UTF-8 (see StreamDecoder, utf8.hpp). Throws
  // Error(invalid_argument) for an id outside of the vocabulary.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const;

  std::int32_t vocabulary_size() const;
  const std::string& token_text(std::int32_t id) const;  // as in the model's files
  const std::string& token_bytes(std::int32_t id) const;
  std::optional<std::int32_t> id_of(std::string_view token_text) const;
  bool is_special(std::int32_t id) const;
  // The first control token in a text, which encode() cuts out with parse_special only.
  std::optional<std::int32_t> first_special(std::string_view text) const;

  std::optional<std::int32_t> bos() const;
  std::optional<std::int32_t> eos() const;
  bool adds_bos() const;  // the model expects bos in front of a text

  // True iff the model ends its answer with this token: eos, and tokens such as <|im_end|>,
  // <|eot_id|>, </s>, <|endoftext|>.
  bool ends_generation(std::int32_t id) const;
  const std::vector<std::int32_t>& end_of_generation() const;  // sorted

  const std::string& chat_template() const;  // Jinja text, empty where the files hold none

 private:
  struct Tables;
  std::shared_ptr<const Tables> tables_;
};

// Decodes a stream of tokens into whole characters. Bytes that can never become valid UTF-8 are
// replaced by U+FFFD, so each returned string is valid. Keeps a copy of the tokenizer's handle.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool keep_special = false);

  std::string push(std::int32_t id);  // the text that is complete now, perhaps empty
  std::string finish();               // what was held back; afterwards as new

 private:
  Tokenizer tokenizer_;
  bool keep_special_;
  std::string held_;
};

}  // namespace clora
