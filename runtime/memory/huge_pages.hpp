// Host memory on huge pages, for the buffers of CPU devices. For the .cpp files of runtime/ only.
//
// A kernel that streams through memory needs the translation of each of its pages, and a page of
// 2 MiB takes the place of 512 (docs/decisions/huge-pages.md has the times). Linux gives such pages
// to memory that asks for them (madvise(2), MADV_HUGEPAGE) unless they are switched off in
// /sys/kernel/mm/transparent_hugepage/enabled; such memory has ordinary pages, and is as right.
// Threads: any.
#pragma once

#include <cstddef>
#include <memory>

namespace clora {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20U;

// `bytes` bytes of zeros from a multiple of kHugePageBytes on, committed page by page when they are
// first used. Null on systems without such pages, or if there is no address space left.
std::shared_ptr<void> huge_pages(std::size_t bytes);

}  // namespace clora
