// WordPieceTokenizer: BERT's tokenizer (MiniLM, E5, bge, MPNet). A text is normalised and split
// into words (bert_normalizer.hpp). Each word becomes the longest piece that begins it, then the
// longest continuing piece ("##ing") that begins the rest, and so on; a word that cannot be cut in
// this way to its end, or that is too long, becomes the unknown token.
// Immutable after construction; encode() is thread-safe. Refers to the vocabulary, which must
// outlive it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "clora/model/text/tokenizer_spec.hpp"
#include "model/text/vocabulary.hpp"

namespace clora {

class WordPieceTokenizer {
 public:
  // Throws Error(invalid_file) if the spec has no unknown token.
  WordPieceTokenizer(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  // Returns a text fragment between added tokens, normalised: valid UTF-8.
  std::string normalized(std::string_view text) const;

  // Appends the tokens of normalised `text`, which contains no added tokens.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  using Pieces = std::unordered_map<std::string_view, std::int32_t>;
  struct Piece {
    std::int32_t id;  // -1: none
    std::size_t size;
  };

  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const;
  bool too_long(std::string_view word) const;
  Piece longest_piece(const Pieces& pieces, std::string_view rest) const;

  WordPieceRules rules_;
  Pieces first_, continuing_;  // the latter without their prefix
  std::size_t longest_ = 0;    // bytes of the longest piece
  std::int32_t unknown_;
};

}  // namespace clora
