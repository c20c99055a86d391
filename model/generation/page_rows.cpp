#include "model/generation/page_rows.hpp"

#include "runtime/fail.hpp"

namespace clora {
namespace {

// Calls f(rows, offset in bytes) for consecutive pages at once, which are often all of them.
template <class F>
void each_run(const Tensor& cache, std::int64_t page_positions, std::span<const std::int32_t> pages,
              F f) {
  std::size_t offset = 0;
  for (std::size_t i = 0; i < pages.size();) {
    std::size_t count = 1;
    while (i + count < pages.size() &&
           pages[i + count] == pages[i] + static_cast<std::int32_t>(count)) {
      ++count;
    }
    const Tensor rows =
        cache.rows(pages[i] * page_positions, static_cast<std::int64_t>(count) * page_positions);
    f(rows, offset);
    offset += rows.bytes();
    i += count;
  }
}

std::size_t bytes_of_pages(const Tensor& cache, std::int64_t page_positions, std::size_t pages) {
  return pages * cache.rows(0, page_positions).bytes();
}

}  // namespace

std::vector<std::byte> read_pages(Context& context, const Tensor& cache,
                                  std::int64_t page_positions,
                                  std::span<const std::int32_t> pages) {
  std::vector<std::byte> bytes(bytes_of_pages(cache, page_positions, pages.size()));
  each_run(cache, page_positions, pages, [&](const Tensor& rows, std::size_t offset) {
    context.read(rows, std::span(bytes).subspan(offset, rows.bytes()));
  });
  return bytes;
}

void write_pages(Context& context, const Tensor& cache, std::int64_t page_positions,
                 std::span<const std::int32_t> pages, std::span<const std::byte> rows) {
  const std::size_t wanted = bytes_of_pages(cache, page_positions, pages.size());
  require(rows.size() == wanted, "page rows: {} pages must have {} bytes, got {}", pages.size(),
          wanted, rows.size());
  each_run(cache, page_positions, pages, [&](const Tensor& part, std::size_t offset) {
    context.write(part, rows.subspan(offset, part.bytes()));
  });
}

}  // namespace clora
