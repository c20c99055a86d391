// BpeTokenizer: byte-level byte-pair encoding (GPT-2, Llama 3, Qwen2, SmolLM). It normalises a
// text, splits it into pieces by the split patterns, and merges the bytes of each piece by rank.
// Every byte of the text is kept, valid UTF-8 or not; only a byte for which the vocabulary has no
// token becomes the unknown token, or is dropped if there is none. Immutable after construction;
// encode() is thread-safe. Refers to the vocabulary, which must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "clora/model/text/tokenizer_spec.hpp"
#include "model/text/merge_table.hpp"
#include "model/text/regex_splitter.hpp"
#include "model/text/vocabulary.hpp"

namespace clora {

class BpeTokenizer {
 public:
  BpeTokenizer(const TokenizerSpec& spec, const Vocabulary& vocabulary);

  // Returns a text fragment between added tokens, normalised.
  std::string normalized(std::string_view text) const;

  // Appends the tokens of normalised `text`, which contains no added tokens.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  void encode_piece(std::string_view piece, std::vector<Symbol>& symbols,
                    std::vector<std::int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  std::vector<RegexSplitter> splitters_;
  std::unordered_map<std::string_view, std::int32_t> normal_pieces_;  // only with ignore_merges
  std::optional<std::int32_t> unknown_;
  bool normalize_nfc_, add_leading_space_;
};

}  // namespace clora
