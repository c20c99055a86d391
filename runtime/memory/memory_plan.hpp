// The memory plan of a batch's temporaries: each lives from its first to its last command, and two
// that are live at the same time never overlap. Pure arithmetic: no device is needed.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace clora {

struct Lifetime {
  std::size_t bytes = 0;
  std::size_t first = 0;       // index of the first command that uses the temporary
  std::size_t last = 0;        // index of the last one
  std::string_view name = {};  // for the error
};

struct Place {
  std::size_t chunk = 0;  // index of the arena's block
  std::size_t offset = 0;
};

struct MemoryPlan {
  std::vector<Place> placements;         // one per lifetime
  std::vector<std::size_t> chunk_bytes;  // required size of each block
};

// Places the largest first, each at the lowest offset where it overlaps no temporary that is live
// at the same time ("greedy by size": Pisarchyk and Lee, 2020), in blocks of at most
// max_chunk_bytes. Offsets are multiples of `alignment`. REQUIRES: alignment > 0.
// Errors: out_of_memory, naming the temporary, if a single one exceeds max_chunk_bytes.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, std::size_t alignment,
                       std::size_t max_chunk_bytes);

// Places each in a separate block of exactly its size, for tools that check memory objects.
MemoryPlan plan_apart(std::span<const Lifetime> lifetimes);

// The maximum of the live bytes over all commands: a lower bound for any plan.
std::size_t peak_live_bytes(std::span<const Lifetime> lifetimes, std::size_t alignment);

}  // namespace clora
