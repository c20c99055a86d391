// SpecialSplitter: finds the tokens that are cut out of a text before it is tokenised, the leftmost
// first and the longest of those that begin together. Immutable; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/vocabulary.hpp"

namespace clora {

class SpecialSplitter {
 public:
  explicit SpecialSplitter(const Vocabulary& vocabulary);

  struct Match {
    std::size_t begin, end;  // begin == text.size(): none
    std::int32_t id;
  };

  // The next token at or after `from`; control tokens count only with parse_control.
  Match find(std::string_view text, std::size_t from, bool parse_control) const;

 private:
  struct Entry {
    std::string_view text;
    std::int32_t id;
    bool control;
  };
  std::array<std::vector<Entry>, 256> by_first_byte_;  // each sorted, longest first
};

}  // namespace clora
