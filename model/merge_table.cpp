#include "model/merge_table.hpp"

#include <bit>

#include "runtime/error.hpp"

namespace clora {

MergeTable::MergeTable(const std::vector<TokenMerge>& merges, const Vocabulary& vocabulary,
                       std::string_view source)
    : mask_(std::bit_ceil(2 * merges.size() + 2) - 1), slots_(mask_ + 1) {
  std::string whole;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const TokenMerge& merge = merges[rank];
    whole.assign(merge.left).append(merge.right);
    const std::int32_t left = vocabulary.find(merge.left);
    const std::int32_t right = vocabulary.find(merge.right);
    const std::int32_t id = vocabulary.find(whole);
    if (left < 0 || right < 0 || id < 0) {
      fail(ErrorCode::invalid_file,
           "{}: merge {} ('{}' + '{}') must be of tokens and give a token of the vocabulary",
           source, rank, merge.left, merge.right);
    }
    // Ranks are exact in a float: there are fewer than 2^24 of them.
    insert(key_of(left, right), {id, -static_cast<float>(rank)});
  }
}

void MergeTable::insert(std::uint64_t key, SymbolMerge merge) {
  std::size_t i = slot_of(key);
  while (slots_[i].key != kEmpty) {
    if (slots_[i].key == key) return;  // the better rank came first
    i = (i + 1) & mask_;
  }
  slots_[i] = {key, merge};
}

}  // namespace clora
