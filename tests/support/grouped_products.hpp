// What tests of products over experts share: sizes, rows routed to experts, adapters' matrices in a
// flat buffer, and which row of x each slot reads.
#pragma once

#include <optional>
#include <vector>

#include "clora/ops/experts/grouped_gemm.hpp"
#include "tests/support/routed_rows.hpp"

namespace clora::test {

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct GroupedSizes {
  RoutingSize routing;
  std::int64_t n, k;
};
// Tiles of 4, 16, 32, 64 and 128 rows; widths of 1, primes, around tiles of 16, 32, 64 and 128
// columns and of 8, 16, 640 and 1280 steps, the last with the low-rank term
inline constexpr GroupedSizes kGroupedSizes[] = {
    {{1, 1, 1}, 1, 1},     {{1, 8, 3}, 64, 64},    {{16, 5, 2}, 37, 23},   {{13, 40, 2}, 33, 65},
    {{67, 6, 2}, 15, 31},  {{130, 4, 1}, 65, 17},  {{150, 4, 3}, 129, 8},  {{450, 3, 2}, 24, 100},
    {{700, 5, 1}, 48, 16}, {{20, 4, 2}, 40, 1277}, {{9, 24, 8}, 67, 1304}, {{7, 40, 5}, 16, 320},
};

class GroupedProductTest : public OpTest {
 protected:
  Routing route(const RoutingSize& size) {
    auto logits = random_values(at(size.rows * size.experts), 3, 4);
    // Expert 1 has no rows where others suffice.
    for (std::int64_t t = 0; t < size.rows && size.experts > size.used && size.experts > 1; ++t) {
      logits[at(t * size.experts + 1)] = -9;
    }
    const Routing routing = routing_of(context(), size);
    run([&](Batch& batch) {
      record_router(batch, routing, upload(context(), {size.rows, size.experts}, logits),
                    RouterWeights::normalised);
    });
    return routing;
  }
  Tensor u32(const std::vector<std::uint32_t>& values) {
    return context().upload<std::uint32_t>({std::ssize(values)}, DType::u32, values,
                                           MemoryTag::scratch);
  }
};

// Matrices [rows, columns] of experts in a flat buffer, in reverse order with gaps; expert 2 has
// none.
struct FlatMatrices {
  std::vector<float> values;
  std::vector<std::uint32_t> offsets;
  std::size_t each;

  FlatMatrices(std::int64_t experts, const Shape& shape, std::uint32_t seed)
      : each(at(shape.elements())) {
    const std::size_t step = (each + 63) / 64 * 64 + 64;
    values = random_values(at(experts) * step, seed);
    for (std::int64_t e = 0; e < experts; ++e) {
      const std::size_t offset = at(experts - 1 - e) * step;
      offsets.push_back(e == 2 ? kNoMatrix : static_cast<std::uint32_t>(offset));
    }
  }
  bool has(std::size_t expert) const { return offsets[expert] != kNoMatrix; }
  std::vector<double> of(std::size_t expert) const {
    return to_double(std::span(values).subspan(offsets[expert], each));
  }
};

// The rows of x that the slots read, or empty for unused slots; and their experts.
struct HostSlot {
  std::size_t row, expert;
};
inline std::vector<std::optional<HostSlot>> slots_of(const HostPlan& plan, const Routing& routing,
                                                     bool gathers) {
  std::vector<std::optional<HostSlot>> slots(plan.entries.size());
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (plan.entries[slot] < 0) continue;
    const std::size_t row = at(plan.entries[slot]) / at(routing.plan.experts_of_row());
    slots[slot] =
        HostSlot{gathers ? row : slot, at(plan.tile_experts[slot / at(routing.plan.tile)])};
  }
  return slots;
}

}  // namespace clora::test
