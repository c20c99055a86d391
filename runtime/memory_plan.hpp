// The places of a batch's temporaries: each lives from its first to its last command, and two that
// live at the same time never overlap. Pure arithmetic: no device is needed.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace clora {

struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0;  // index of the first command that uses the temporary
  std::size_t last = 0;   // and of the last
};

struct Place {
  std::size_t chunk = 0;  // which block of the arena
  std::size_t offset = 0;
};

struct MemoryPlan {
  std::vector<Place> places;             // one for each lifetime
  std::vector<std::size_t> chunk_bytes;  // size that each block must have
};

// Largest first, each at the lowest offset where no temporary that lives at the same time lies
// ("greedy by size": Pisarchyk and Lee, 2020), in blocks of at most max_chunk_bytes.
// Offsets are multiples of `alignment`. REQUIRES: alignment > 0.
// Errors: out_of_memory, if one temporary alone is larger than a block may be.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, std::size_t alignment,
                       std::size_t max_chunk_bytes);

// Each alone, in a block of exactly its size: for tools that watch memory objects.
MemoryPlan plan_apart(std::span<const Lifetime> lifetimes);

// The most bytes that live at any one command: what no plan can go below.
std::size_t peak_live_bytes(std::span<const Lifetime> lifetimes, std::size_t alignment);

}  // namespace clora
