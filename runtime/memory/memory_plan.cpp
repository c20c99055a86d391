#include "clora/runtime/memory/memory_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

struct Placed {
  std::size_t index;  // index of the lifetime
  std::size_t offset;
  std::size_t bytes;  // rounded up
};

// One block with its temporaries, sorted by offset.
class Chunk {
 public:
  // The lowest offset where `wanted` bytes overlap nothing that is live at the same time.
  std::size_t find(std::span<const Lifetime> lifetimes, const Lifetime& lifetime,
                   std::size_t wanted) const {
    std::size_t offset = 0;
    for (const Placed& placed : placed_) {
      if (!overlap(lifetimes[placed.index], lifetime)) continue;
      if (offset + wanted <= placed.offset) return offset;
      offset = std::max(offset, placed.offset + placed.bytes);
    }
    return offset;
  }

  void add(Placed placed) {
    placed_.insert(std::ranges::upper_bound(placed_, placed.offset, {}, &Placed::offset), placed);
    bytes_ = std::max(bytes_, placed.offset + placed.bytes);
  }

  std::size_t bytes() const { return bytes_; }

 private:
  std::vector<Placed> placed_;
  std::size_t bytes_ = 0;
};

}  // namespace

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes, std::size_t alignment,
                       std::size_t max_chunk_bytes) {
  require(alignment > 0, "memory plan: alignment must be positive");
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return lifetimes[i].bytes; });

  std::vector<Chunk> chunks;
  MemoryPlan plan;
  plan.placements.resize(lifetimes.size());
  for (const std::size_t i : order) {
    const std::size_t wanted = round_up(std::max<std::size_t>(lifetimes[i].bytes, 1), alignment);
    if (wanted > max_chunk_bytes) {
      fail(ErrorCode::out_of_memory,
           "memory plan: '{}' of {} KiB exceeds the device's largest allocation of {} KiB; lower "
           "`batch_size` or `max_seq_length`",
           lifetimes[i].name, wanted >> 10, max_chunk_bytes >> 10);
    }
    std::size_t c = 0;
    std::size_t offset = 0;
    for (; c < chunks.size(); ++c) {
      offset = chunks[c].find(lifetimes, lifetimes[i], wanted);
      if (offset + wanted <= max_chunk_bytes) break;
    }
    if (c == chunks.size()) {
      chunks.emplace_back();
      offset = 0;
    }
    chunks[c].add({i, offset, wanted});
    plan.placements[i] = {c, offset};
  }
  for (const Chunk& chunk : chunks) plan.chunk_bytes.push_back(chunk.bytes());
  return plan;
}

MemoryPlan plan_apart(std::span<const Lifetime> lifetimes) {
  MemoryPlan plan;
  for (const Lifetime& lifetime : lifetimes) {
    plan.placements.push_back({plan.chunk_bytes.size(), 0});
    plan.chunk_bytes.push_back(std::max<std::size_t>(lifetime.bytes, 1));
  }
  return plan;
}

std::size_t peak_live_bytes(std::span<const Lifetime> lifetimes, std::size_t alignment) {
  std::map<std::size_t, std::ptrdiff_t> change;  // in bytes, by command
  for (const Lifetime& lifetime : lifetimes) {
    const auto bytes = static_cast<std::ptrdiff_t>(round_up(lifetime.bytes, alignment));
    change[lifetime.first] += bytes;
    change[lifetime.last + 1] -= bytes;
  }
  std::ptrdiff_t live = 0;
  std::ptrdiff_t peak = 0;
  for (const auto& [command, bytes] : change) peak = std::max(peak, live += bytes);
  return static_cast<std::size_t>(peak);
}

}  // namespace clora
