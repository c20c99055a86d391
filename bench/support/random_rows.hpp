// Token ids without a meaning, and packed rows of them, for benches whose times do not depend on
// the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "clora/model/data/packing.hpp"

namespace clora::bench {

inline std::vector<std::int32_t> some_ids(std::size_t count, std::int64_t vocabulary,
                                          std::size_t first = 17) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) {
    ids[i] = static_cast<std::int32_t>((i * 7919 + first) % static_cast<std::size_t>(vocabulary));
  }
  return ids;
}

// `batch` equal records, which begin with the id `first`; all tokens but their first are labelled.
inline PackedRows random_rows(std::size_t batch, std::size_t length, std::int64_t vocabulary,
                              std::size_t first = 17) {
  Record record{.ids = some_ids(length, vocabulary, first),
                .is_target = std::vector<std::uint8_t>(length, 1)};
  record.is_target.front() = 0;
  const std::vector<Record> records(batch, record);
  return pack_rows(std::span<const Record>(records), batch * length);
}

}  // namespace clora::bench
