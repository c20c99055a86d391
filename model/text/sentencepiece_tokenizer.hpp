// SentencePieceTokenizer: BPE over characters with U+2581 for a space (Llama 2, stories260K,
// TinyStories). The pair whose merged token has the best score, or whose merge has the best rank,
// is merged first. Characters that no token covers become <0xXX> byte tokens, else the unknown
// token. A character without its own token merges with nothing; each byte that is not valid UTF-8
// counts as a character.
// Immutable after construction; encode() is thread-safe. Refers to the vocabulary, which must
// outlive it.
//
// Before merging, a text is cut between characters that are adjacent in no token: no merge can
// cross such a cut, so the tokens are the same and rows stay short.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "clora/model/text/tokenizer_spec.hpp"
#include "model/text/merge_table.hpp"
#include "model/text/vocabulary.hpp"

namespace clora {

class SentencePieceTokenizer {
 public:
  // Throws Error(invalid_file) if scores are needed and their number differs from the tokens'.
  SentencePieceTokenizer(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  // What precedes a text fragment: nothing, an added token, or (neither) other text.
  struct Place {
    bool begins_text = false;
    bool after_special = false;
  };

  // Returns a text fragment between added tokens, normalised: with its spaces marked, unless
  // Metaspace does that later.
  std::string normalized(std::string_view text, Place place) const;

  // Appends the tokens of normalised `text`, which contains no added tokens.
  void encode(std::string_view text, Place place, std::vector<std::int32_t>& ids) const;

  bool adds_space_prefix() const { return space_prefix_ != SpacePrefix::never; }

 private:
  bool puts_space_before(std::string_view text, Place place) const;
  std::string marked(std::string_view text, Place place) const;
  void encode_marked(std::string_view text, std::vector<std::int32_t>& ids) const;
  bool joinable(std::int32_t left, std::int32_t right) const;
  void add_joinable_pairs(std::string_view token);
  // `ids` holds only tokens of this text fragment, so unknown tokens are not fused with earlier
  // ones.
  void encode_row(std::string_view text, std::vector<Symbol>& row,
                  std::vector<std::int32_t>& ids) const;
  void append_symbol(std::string_view text, std::int32_t id, std::vector<std::int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  std::unordered_set<std::uint64_t> joinable_;  // pairs of code points inside tokens
  std::optional<std::int32_t> unknown_;
  SpacePrefix space_prefix_;
  bool metaspace_, split_before_space_, fuse_unknown_;
};

}  // namespace clora
