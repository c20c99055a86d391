#include "clora/ops/experts/router.hpp"

#include <algorithm>

#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kGroup = 256;  // of the kernels in which a group owns an expert
constexpr std::size_t kRowItems = 64;
constexpr std::int64_t kFewRows = 4;  // of an expert, from which on its weights are read in tiles

// The rows of a tile of slots: more entries for an expert make larger tiles, which read its weights
// less often.
std::int64_t tile_of(const RoutingSize& size) {
  const std::int64_t mean = size.rows * size.used / size.experts;
  if (mean >= 192) return 128;
  if (mean >= 48) return 64;
  if (mean >= 20) return 32;
  return mean >= kFewRows ? 16 : kFewRowsTile;
}

// Each expert that has entries leaves at most tile - 1 slots unused.
std::int64_t slots_of(const RoutingSize& size, std::int64_t tile) {
  const std::int64_t entries = size.rows * size.used;
  const std::int64_t active = std::min(size.experts, entries);
  return (entries + active * (tile - 1)) / tile * tile;
}

Defines defines_of(std::size_t group, RouterWeights weights) {
  Defines defines;
  defines.set("GROUP", group);
  defines.set("NORMALISE", weights == RouterWeights::normalised ? 1 : 0);
  return defines;
}

RoutingSize size_of(const Routing& routing) {
  const ExpertPlan& plan = routing.plan;
  return {plan.rows(), plan.experts(), plan.experts_of_row()};
}

void require_routing(const Routing& routing, const Tensor& logits) {
  require(!routing.ids.empty() && routing.plan.tile > 0,
          "router: routing must be of make_routing()");
  const auto [rows, experts, used] = size_of(routing);
  require_tensor("router", "logits", logits, {rows, experts});
}

Launch rows_launch_of(Context& context, std::string_view function, const Defines& defines,
                      const RoutingSize& size) {
  const std::size_t group =
      context.device().kind == DeviceKind::cpu ? 1 : reduction_group(context.device(), kRowItems);
  const auto rows = static_cast<std::size_t>(size.rows);
  return {context.kernel("router.cl", function, defines),
          groups_of(group, divide_up(rows, group)),
          {},
          "router/" + std::string(function)};
}

}  // namespace

Routing make_routing(const RoutingSize& size, const AllocateTensor& allocate) {
  const auto& [rows, experts, used] = size;
  require(rows >= 1 && experts >= 1 && used >= 1 && used <= experts,
          "router: rows, experts and experts of a row must be positive, and no more experts of a "
          "row than there are; got {}, {} and {}",
          rows, experts, used);
  const std::int64_t tile = tile_of(size), slots = slots_of(size, tile);
  const auto i32 = [&](Shape shape, std::string_view name) {
    return allocate(shape, DType::i32, name);
  };
  return {.ids = i32({rows, used}, "experts of rows"),
          .weights = allocate({rows, used}, DType::f32, "weights of experts"),
          .plan = {.entries = i32({slots}, "entries of slots"),
                   .slots = i32({rows, used}, "slots of entries"),
                   .tile_experts = i32({slots / tile}, "experts of tiles"),
                   .counts = i32({experts}, "entries of experts"),
                   .begins = i32({experts + 1}, "slots of experts"),
                   .active = i32({std::min(experts, rows * used)}, "active experts"),
                   .tile = tile}};
}

void record_router(Batch& batch, const Routing& routing, const Tensor& logits,
                   RouterWeights weights) {
  require_routing(routing, logits);
  Context& context = batch.context();
  const RoutingSize size = size_of(routing);
  const ExpertPlan& plan = routing.plan;
  const auto rows = u32(size.rows), experts = u32(size.experts), used = u32(size.used);
  const std::size_t group =
      context.device().kind == DeviceKind::cpu ? 1 : reduction_group(context.device(), kGroup);
  const Defines defines = defines_of(group, weights);
  Launch select = rows_launch_of(context, "router_select", defines, size);
  select.cost = router_cost(size);
  batch.launch(std::move(select), routing.ids, routing.weights, logits, rows, experts, used);
  const auto expert_launch = [&](std::string_view function) {
    return Launch{context.kernel("router.cl", function, defines),
                  groups_of(group, experts),
                  {0, static_cast<double>(routing.ids.bytes())},
                  "router/" + std::string(function)};
  };
  const std::uint32_t entries = rows * used;
  batch.launch(expert_launch("router_count"), plan.counts, routing.ids, entries);
  batch.launch(expert_launch("router_place"), plan.entries, plan.slots, plan.tile_experts,
               plan.begins, plan.active, plan.counts, routing.ids, entries, experts,
               u32(plan.slot_count()), u32(plan.active.elements()), u32(plan.tile));
}

void record_router_backward(Batch& batch, const Tensor& dlogits, const Tensor& logits,
                            const Routing& routing, const Tensor& dweights, RouterWeights weights) {
  require_routing(routing, logits);
  const RoutingSize size = size_of(routing);
  require_tensor("router backward", "dlogits", dlogits, logits.shape());
  require_tensor("router backward", "dweights", dweights, {size.rows, size.used});
  Launch launch = rows_launch_of(batch.context(), "router_backward", defines_of(1, weights), size);
  launch.cost = router_cost(size);
  batch.launch(std::move(launch), dlogits, logits, routing.ids, dweights, u32(size.rows),
               u32(size.experts), u32(size.used));
}

// An exp counts as 8 flops.
Cost router_cost(const RoutingSize& size) {
  const auto logits = static_cast<double>(size.rows * size.experts);
  return {logits * static_cast<double>(10 + size.used), 4 * logits};
}

}  // namespace clora
