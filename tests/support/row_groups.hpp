// The table of row groups on the device (ops/gemm/epilogue.hpp).
#pragma once

#include <span>

#include "clora/ops/gemm/epilogue.hpp"
#include "clora/runtime/context.hpp"

namespace clora::test {

inline Tensor upload_row_groups(Context& context, std::int64_t rows,
                                std::span<const RowGroup> groups) {
  return context.upload<std::uint32_t>({rows, kRowGroupWords}, DType::u32,
                                       row_group_table(rows, groups), MemoryTag::scratch);
}

// The group of each row; that of rows in none has the adapter kNoAdapter.
inline std::vector<RowGroup> groups_of_rows(std::int64_t rows, std::span<const RowGroup> groups) {
  std::vector<RowGroup> of(static_cast<std::size_t>(rows), RowGroup{.adapter = kNoAdapter});
  for (const RowGroup& group : groups) {
    for (std::int64_t m = group.begin; m < group.end; ++m) of[static_cast<std::size_t>(m)] = group;
  }
  return of;
}

}  // namespace clora::test
