// The pages of the caches in self-tests of decode_layers.
#pragma once

#include <cstdint>
#include <vector>

#include "clora/ops/decode/decode_layers.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

struct TestedPages {
  std::int64_t pages, positions;
};

// Gives `decode` a page table of these pages in reverse order, and the slot of key `last`.
inline void place_in_pages(SelfTest& test, DecodeLayers& decode, TestedPages tested,
                           std::int64_t last) {
  const auto [pages, positions] = tested;
  std::vector<std::int32_t> table(static_cast<std::size_t>(pages));
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<std::int32_t>(table.size() - 1 - i);
  }
  const std::int64_t page = pages - 1 - last / positions;
  const std::vector<std::int32_t> slot{
      static_cast<std::int32_t>(page * positions + last % positions)};
  decode.pages = {.tables = test.input({1, pages}, table),
                  .table_of = test.input({1}, std::vector<std::int32_t>{0}),
                  .positions = positions};
  decode.slot = test.input({1}, slot);
}

}  // namespace clora
