#include "clora/runtime/memory/memory_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

struct Placed {
  std::size_t offset;
  std::size_t bytes;  // rounded up
  std::size_t first, last;
  std::size_t number;  // in the order of placing
};

bool overlap(const Placed& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

// Temporaries by the commands that they are live at, in ranges of kCommands: most are live in one
// range, so that a step with a hundred thousand of them is planned in a second.
class Timeline {
 public:
  void add(const Placed& placed) {
    const std::size_t last = placed.last / kCommands;
    if (ranges_.size() <= last) ranges_.resize(last + 1);
    for (std::size_t r = placed.first / kCommands; r <= last; ++r) ranges_[r].push_back(placed);
  }

  // Those live at the same time, by their offsets.
  std::vector<Placed> live_with(const Lifetime& lifetime) const {
    std::vector<Placed> live;
    const std::size_t begin = lifetime.first / kCommands;
    const std::size_t end = std::min(lifetime.last / kCommands + 1, ranges_.size());
    for (std::size_t r = begin; r < end; ++r) {
      for (const Placed& placed : ranges_[r]) {
        const bool is_new = r == begin || placed.first / kCommands == r;
        if (is_new && overlap(placed, lifetime)) live.push_back(placed);
      }
    }
    std::ranges::sort(live, {}, [](const Placed& p) { return std::pair(p.offset, p.number); });
    return live;
  }

 private:
  static constexpr std::size_t kCommands = 64;
  std::vector<std::vector<Placed>> ranges_;
};

// One block with its temporaries.
class Chunk {
 public:
  // The lowest offset where `wanted` bytes overlap nothing that is live at the same time.
  std::size_t find(const Lifetime& lifetime, std::size_t wanted) const {
    std::size_t offset = 0;
    for (const Placed& placed : placed_.live_with(lifetime)) {
      if (offset + wanted <= placed.offset) return offset;
      offset = std::max(offset, placed.offset + placed.bytes);
    }
    return offset;
  }

  void add(const Lifetime& lifetime, std::size_t offset, std::size_t bytes) {
    placed_.add({offset, bytes, lifetime.first, lifetime.last, count_++});
    bytes_ = std::max(bytes_, offset + bytes);
  }

  std::size_t bytes() const { return bytes_; }

 private:
  Timeline placed_;
  std::size_t count_ = 0;
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
      offset = chunks[c].find(lifetimes[i], wanted);
      if (offset + wanted <= max_chunk_bytes) break;
    }
    if (c == chunks.size()) {
      chunks.emplace_back();
      offset = 0;
    }
    chunks[c].add(lifetimes[i], offset, wanted);
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
