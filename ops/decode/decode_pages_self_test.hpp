// The pages of the caches in self-tests of decode_layers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "clora/ops/decode/decode_layers.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

struct TestedPages {
  std::int64_t pages, positions;
};

// Gives `decode` page tables of these pages, in reverse order for even rows and in order for odd
// ones, and the slots of rows at `positions`.
inline void place_in_pages(SelfTest& test, DecodeLayers& decode, TestedPages tested,
                           std::span<const std::int32_t> positions) {
  const auto pages = static_cast<std::int32_t>(tested.pages);
  const auto each = static_cast<std::int32_t>(tested.positions);
  const auto rows = std::ssize(positions), sequences = std::min<std::ptrdiff_t>(rows, 2);
  std::vector<std::int32_t> tables, table_of, slot;
  for (std::int32_t i = 0; i < pages; ++i) tables.push_back(pages - 1 - i);
  for (std::int32_t i = 0; i < pages && sequences > 1; ++i) tables.push_back(i);
  for (const std::int32_t position : positions) {
    table_of.push_back(static_cast<std::int32_t>(std::ssize(table_of) % 2));
    const auto entry = static_cast<std::size_t>(table_of.back() * pages + position / each);
    slot.push_back(tables[entry] * each + position % each);
  }
  decode.pages = {.tables = test.input({sequences, tested.pages}, tables),
                  .table_of = test.input({rows}, table_of),
                  .positions = tested.positions};
  decode.slot = test.input({rows}, slot);
}

}  // namespace clora
