// Records of preferences from their ids, and the indices that name all of them.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "clora/model/data/records.hpp"

namespace clora::test {

// A prompt with its two answers, which are marked 1 and 2.
inline Record record_of(const std::vector<std::int32_t>& prompt,
                        const std::vector<std::int32_t>& chosen,
                        const std::vector<std::int32_t>& rejected) {
  Record record;
  std::uint8_t mark = 0;
  for (const auto& part : {prompt, chosen, rejected}) {
    record.ids.insert(record.ids.end(), part.begin(), part.end());
    record.is_target.resize(record.ids.size(), mark++);
  }
  return record;
}

inline std::vector<std::size_t> all_of(const Records& records) {
  std::vector<std::size_t> indices(records.records.size());
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

}  // namespace clora::test
