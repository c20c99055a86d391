// The ranges of keys that rows attend to, for tests of attention.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace clora::test {

struct KeyRanges {
  std::vector<std::int32_t> first, last;
  std::size_t rows() const { return first.size(); }
};

// Documents of these lengths, packed one after another: each row attends to its document up to
// itself.
inline KeyRanges packed_ranges(const std::vector<std::size_t>& documents) {
  KeyRanges ranges;
  for (const std::size_t length : documents) {
    ranges.first.insert(ranges.first.end(), length, static_cast<std::int32_t>(ranges.rows()));
  }
  ranges.last.resize(ranges.rows());
  std::iota(ranges.last.begin(), ranges.last.end(), 0);
  return ranges;
}

// The same documents, each row of which attends to its whole document.
inline KeyRanges whole_document_ranges(const std::vector<std::size_t>& documents) {
  KeyRanges ranges = packed_ranges(documents);
  ranges.last.clear();
  for (const std::size_t length : documents) {
    const auto end = static_cast<std::int32_t>(ranges.last.size() + length);
    ranges.last.insert(ranges.last.end(), length, end - 1);
  }
  return ranges;
}

}  // namespace clora::test
