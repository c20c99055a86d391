#include "clora/ops/gemm/epilogue.hpp"

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {

std::vector<std::uint32_t> row_group_table(std::int64_t rows, std::span<const RowGroup> groups) {
  std::vector<std::uint32_t> table;
  table.reserve(2 * static_cast<std::size_t>(rows));
  std::int64_t at = 0;
  const auto fill_to = [&](std::int64_t end, std::uint32_t adapter) {
    for (; at < end; ++at) table.insert(table.end(), {adapter, u32(end)});
  };
  for (const auto& [begin, end, adapter] : groups) {
    require(at <= begin && begin <= end && end <= rows,
            "row groups: they must be in ascending order within {} rows, got [{}, {}) after row {}",
            rows, begin, end, at);
    fill_to(begin, kNoAdapter);
    fill_to(end, adapter);
  }
  fill_to(rows, kNoAdapter);
  return table;
}

}  // namespace clora
