// Reading and writing of the KV cache's rows by pages, between host and device. Both wait, and run
// after all commands enqueued before. Threads: as for the Context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "clora/runtime/context.hpp"

namespace clora {

// The rows of the pages of a tensor of the cache, [pages * page_positions, ...] of any type, in the
// given order of the pages. Errors: device.
std::vector<std::byte> read_pages(Context& context, const Tensor& cache,
                                  std::int64_t page_positions, std::span<const std::int32_t> pages);
// The inverse. REQUIRES: rows.size() is that of the pages.
void write_pages(Context& context, const Tensor& cache, std::int64_t page_positions,
                 std::span<const std::int32_t> pages, std::span<const std::byte> rows);

}  // namespace clora
