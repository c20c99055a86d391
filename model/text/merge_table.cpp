#include "model/text/merge_table.hpp"

#include <bit>

#include "model/text/utf8.hpp"
#include "runtime/fail.hpp"

namespace clora {

std::vector<PairMerge> merges_by_score(const std::vector<float>& scores,
                                       const Vocabulary& vocabulary) {
  std::vector<PairMerge> merges;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.is_text(id)) continue;
    const std::string_view text = vocabulary.text(id);
    const float score = scores[static_cast<std::size_t>(id)];
    for (std::size_t cut = 0; cut < text.size(); cut += read_utf8(text, cut).length) {
      const std::int32_t left = vocabulary.find(text.substr(0, cut));
      const std::int32_t right = left < 0 ? -1 : vocabulary.find(text.substr(cut));
      if (left < 0 || right < 0 || !vocabulary.is_text(left) || !vocabulary.is_text(right)) {
        continue;
      }
      merges.push_back({left, right, {id, score}});
    }
  }
  return merges;
}

MergeTable::MergeTable(std::size_t count)
    : mask_(std::bit_ceil(2 * count + 2) - 1), slots_(mask_ + 1) {}

MergeTable::MergeTable(const std::vector<PairMerge>& merges) : MergeTable(merges.size()) {
  for (const PairMerge& pair : merges) insert(pair.left, pair.right, pair.merge);
}

MergeTable::MergeTable(const std::vector<TokenMerge>& merges, const Vocabulary& vocabulary,
                       std::string_view source)
    : MergeTable(merges.size()) {
  std::string merged;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const TokenMerge& merge = merges[rank];
    merged.assign(merge.left).append(merge.right);
    const std::int32_t left = vocabulary.find(merge.left);
    const std::int32_t right = vocabulary.find(merge.right);
    const std::int32_t id = vocabulary.find(merged);
    if (left < 0 || right < 0 || id < 0) {
      fail(ErrorCode::invalid_file,
           "{}: merge {} ('{}' + '{}') must combine two tokens into a token of the vocabulary",
           source, rank, merge.left, merge.right);
    }
    // Ranks are exact in a float, since there are fewer than 2^24 of them.
    insert(left, right, {id, -static_cast<float>(rank)});
  }
}

void MergeTable::insert(std::int32_t left, std::int32_t right, SymbolMerge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t i = slot_of(key);
  while (slots_[i].key != kEmpty) {
    if (slots_[i].key == key) return;  // the better rank came first
    i = (i + 1) & mask_;
  }
  slots_[i] = {key, merge};
}

}  // namespace clora
