#include "model/data/text_packing.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {

TextPacking text_packing(const ModelConfig& config, Pooling pooling) {
  const bool is_causal = std::ranges::all_of(
      attentions_of(config), [](const AttentionLayerSpec* each) { return each->is_causal; });
  return {pooling, is_causal};
}

void append_text(PackedRows& packed, std::span<const std::int32_t> ids, std::int32_t target,
                 const TextPacking& how) {
  const auto begin = static_cast<std::int32_t>(packed.rows());
  const auto count = static_cast<std::int32_t>(ids.size());
  const std::int32_t labelled = how.pooling == Pooling::last_token ? count - 1 : 0;
  const std::int32_t number = packed.text.empty() ? 0 : packed.text.back() + 1;
  for (std::int32_t i = 0; i < count; ++i) {
    packed.ids.push_back(ids[static_cast<std::size_t>(i)]);
    packed.targets.push_back(i == labelled ? target : -1);
    packed.positions.push_back(i);
    packed.first.push_back(begin);
    packed.last.push_back(how.is_causal ? begin + i : begin + count - 1);
    packed.text.push_back(number);
  }
}

std::vector<std::span<const std::int32_t>> texts_of(const RecordView& record) {
  std::vector<std::span<const std::int32_t>> texts;
  for (std::size_t begin = 0; begin < record.ids.size();) {
    const auto next = std::find(record.is_target.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
                                record.is_target.end(), 1);
    const auto end = static_cast<std::size_t>(next - record.is_target.begin());
    texts.push_back(record.ids.subspan(begin, end - begin));
    begin = end;
  }
  return texts;
}

PackedRows pack_text_pairs(const Records& records, std::span<const std::size_t> indices,
                           const TextPacking& how) {
  PackedRows packed;
  std::int32_t number = 0;
  for (const std::size_t index : indices) {
    const auto texts = texts_of(records.records[index]);
    require(texts.size() >= 2, "pack_text_pairs: record {} must be a pair of texts or a triplet",
            index + 1);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      append_text(packed, texts[i], i == 0 ? number + 1 : number, how);
      ++number;
    }
    ++packed.target_count;
  }
  return packed;
}

}  // namespace clora
