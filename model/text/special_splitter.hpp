// SpecialSplitter: finds the added tokens that are extracted from a text before it is tokenised:
// the leftmost first, and the longest of those that begin at the same position. As in Hugging
// Face's tokenizers, a token may be restricted to stand apart from words, and may take the white
// space around it. Immutable; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/text/tokenizer_spec.hpp"

namespace clora {

class SpecialSplitter {
 public:
  struct Entry {
    std::string text;  // empty: never found
    std::int32_t id;
    bool control;  // found only if control tokens are parsed
    AddedTokenRules rules = {};
  };
  explicit SpecialSplitter(std::vector<Entry> entries);

  struct Match {
    std::size_t begin, end;  // including the white space that the token takes
    std::int32_t id;         // -1: none, and begin is the end of the text
    std::size_t next;        // where the search continues: the end of the token itself
  };

  // Returns the next token that begins at or after `from`, without white space before `done`, the
  // end of the previous match. A token may begin in the white space that the previous one took.
  Match find(std::string_view text, std::size_t done, std::size_t from, bool parse_control) const;

  bool empty() const noexcept { return empty_; }

 private:
  const Entry* longest_at(std::string_view text, std::size_t at, bool parse_control) const;

  std::array<std::vector<Entry>, 256> by_first_byte_;  // each sorted, longest first
  bool empty_ = true;
};

}  // namespace clora
