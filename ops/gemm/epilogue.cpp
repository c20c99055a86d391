#include "clora/ops/gemm/epilogue.hpp"

#include <bit>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {

std::vector<std::uint32_t> row_group_table(std::int64_t rows, std::span<const RowGroup> groups) {
  std::vector<std::uint32_t> table;
  table.reserve(static_cast<std::size_t>(rows * kRowGroupWords));
  std::int64_t at = 0;
  const auto fill_to = [&](std::int64_t end, const RowGroup& group) {
    for (; at < end; ++at) {
      table.insert(table.end(), {group.adapter, u32(end), group.rank,
                                 std::bit_cast<std::uint32_t>(group.scale)});
    }
  };
  const RowGroup none{.adapter = kNoAdapter, .rank = 0};
  for (const RowGroup& group : groups) {
    const auto [begin, end] = std::pair(group.begin, group.end);
    require(at <= begin && begin <= end && end <= rows,
            "row groups: they must be in ascending order within {} rows, got [{}, {}) after row {}",
            rows, begin, end, at);
    fill_to(begin, none);
    fill_to(end, group);
  }
  fill_to(rows, none);
  return table;
}

}  // namespace clora
