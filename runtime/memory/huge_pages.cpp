#include "runtime/memory/huge_pages.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "runtime/integer_sizes.hpp"

namespace clora {

#ifdef MADV_HUGEPAGE
std::shared_ptr<void> huge_pages(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePageBytes;  // some aligned address is in the first page
  void* const begin =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) return nullptr;
  std::shared_ptr<void> mapping(begin, [mapped](void* at) { (void)munmap(at, mapped); });
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t skipped = round_up(address, kHugePageBytes) - address;
  void* const aligned = static_cast<std::byte*>(begin) + skipped;
  (void)madvise(aligned, bytes, MADV_HUGEPAGE);  // refused where the kernel has none
  return {std::move(mapping), aligned};
}
#else
std::shared_ptr<void> huge_pages(std::size_t) { return nullptr; }
#endif

}  // namespace clora
