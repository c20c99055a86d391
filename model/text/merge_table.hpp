// MergeTable: (left token, right token) -> rank and merged token, in one open-addressed array.
// Immutable after construction; reads are thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/text/symbol_merging.hpp"
#include "model/text/vocabulary.hpp"

namespace clora {

// A pair of tokens and the token that they merge into.
struct PairMerge {
  std::int32_t left, right;
  SymbolMerge merge;
};

// Returns every merge of two text tokens into a text token, with the score of the result as
// priority, in the order of the results' ids. Control, unknown and byte tokens are excluded.
// REQUIRES: scores.size() == vocabulary.size().
std::vector<PairMerge> merges_by_score(const std::vector<float>& scores,
                                       const Vocabulary& vocabulary);

class MergeTable {
 public:
  explicit MergeTable(const std::vector<PairMerge>& merges);

  // Throws Error(invalid_file) if a part or the result of a merge is not in the vocabulary.
  MergeTable(const std::vector<TokenMerge>& merges, const Vocabulary& vocabulary,
             std::string_view source);

  // Returns id -1 if the pair is not merged; a token id of -1 merges with nothing.
  SymbolMerge find(std::int32_t left, std::int32_t right) const {
    if (left < 0 || right < 0) return {};
    const std::uint64_t key = key_of(left, right);
    for (std::size_t i = slot_of(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kEmpty;
    SymbolMerge merge;
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio: spreads neighbouring ids
    return static_cast<std::size_t>(key >> 32) & mask_;
  }
  explicit MergeTable(std::size_t count);
  void insert(std::int32_t left, std::int32_t right, SymbolMerge merge);

  std::size_t mask_;
  std::vector<Slot> slots_;
};

}  // namespace clora
