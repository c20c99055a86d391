// Rows that are routed to experts on the device, for tests of ops over them.
#pragma once

#include <vector>

#include "clora/ops/experts/router.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {

// A routing with tensors of its own, so that a test can read them.
inline Routing routing_of(Context& context, const RoutingSize& size) {
  return make_routing(size, [&](Shape shape, DType type, std::string_view) {
    const Tensor tensor = context.allocate(shape, type, MemoryTag::scratch);
    // Neither -1, which stands for no entry, nor the number of one.
    const std::vector<std::byte> unwritten(tensor.bytes(), std::byte{0xfe});
    context.write(tensor, unwritten);
    return tensor;
  });
}

// The plan, read back.
struct HostPlan {
  std::vector<std::int32_t> entries, slots, tile_experts, counts, begins, active;

  HostPlan(Context& context, const ExpertPlan& plan)
      : entries(context.read<std::int32_t>(plan.entries)),
        slots(context.read<std::int32_t>(plan.slots)),
        tile_experts(context.read<std::int32_t>(plan.tile_experts)),
        counts(context.read<std::int32_t>(plan.counts)),
        begins(context.read<std::int32_t>(plan.begins)),
        active(context.read<std::int32_t>(plan.active)) {}
};

}  // namespace clora::test
