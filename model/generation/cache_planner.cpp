#include "model/generation/cache_planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "model/generation/adapter_slots.hpp"
#include "model/generation/engine_sizes.hpp"
#include "model/generation/largest_steps.hpp"
#include "model/transformer/paged_forward.hpp"
#include "model/transformer/sub_layer.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kMarginShare = 16;  // 1 / 16 of the limit

std::int64_t positions_of_all(const EngineConfig& config) {
  return config.max_sequences * config.max_positions;
}

std::size_t bytes_of_position(const ModelConfig& model, DType type) {
  std::size_t bytes = 0;
  for (const BlockSpec& block : model.blocks) {
    for (const SubLayerSpec& layer : block) {
      if (!std::holds_alternative<AttentionLayerSpec>(layer.f)) continue;
      for (const Shape& shape : cache_shapes(layer, 1)) {
        bytes += bytes_of(type, static_cast<std::size_t>(shape.elements()));
      }
    }
  }
  return bytes;
}

std::string amount(std::size_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / 1048576.0;
  return mebibytes < 1024 ? fmt::format("{:.1f} MiB", mebibytes)
                          : fmt::format("{:.2f} GiB", mebibytes / 1024);
}

}  // namespace

CachePlan plan_cache(LanguageModel& model, const EngineConfig& given,
                     std::span<const Adapter* const> adapters) {
  Context& context = model.context();
  EngineConfig config = given;
  if (has_states(model.config())) config.max_sequences = 1;
  require(context.config().dry_run, "cache plan: the model's context must be a dry run");
  config.cache_positions = config.max_positions;
  AdapterSlots slots(model, {.slots = config.device_adapters,
                             .max_rank = config.max_rank,
                             .base_adapter = config.base_adapter});
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    slots.add(fmt::format("adapter {}", i), *adapters[i]);
  }
  PagedForward forward(model, forward_config(context, config, slots.stacks()));
  const ShapeRules rules = shape_rules(context, model.config());
  const bool adapted = slots.stacks() != nullptr && !adapters.empty();
  for (const StepShape& shape : largest_steps(config, rules, adapted)) forward.record(shape);
  context.pool().trim();
  const MemoryStatistics pool = context.pool().statistics();
  CachePlan plan{.limit_bytes = pool.limit_bytes,
                 .position_bytes = bytes_of_position(model.config(), forward.config().cache_type)};
  // The unused rest of slabs that are partly used counts against the limit.
  plan.margin_bytes = plan.limit_bytes / kMarginShare + pool.cached_bytes;
  const std::size_t cache =
      plan.position_bytes * static_cast<std::size_t>(forward.config().pages * kPagePositions);
  plan.fixed_bytes = pool.in_use_bytes - cache;
  const std::size_t taken = plan.fixed_bytes + plan.margin_bytes;
  const std::size_t left = plan.limit_bytes > taken ? plan.limit_bytes - taken : 0;
  const auto fits = static_cast<std::int64_t>(left / std::max<std::size_t>(1, plan.position_bytes));
  plan.fitting_positions = fits / kPagePositions * kPagePositions;
  return plan;
}

std::int64_t planned_cache_positions(const CachePlan& plan, const EngineConfig& config) {
  const bool is_set = config.cache_positions > 0;
  const std::int64_t least = is_set ? config.cache_positions : config.max_positions;
  if (plan.fitting_positions < least) {
    fail(ErrorCode::out_of_memory,
         "KV cache: {} positions of {} bytes take {}; of the limit of {}, weights, adapters and "
         "steps take {} and {} are reserved, so that {} positions fit; lower `cache_positions`, "
         "`max_positions` or `max_sequences`, use a `cache_type` of fewer bits, or raise the limit",
         least, plan.position_bytes, amount(static_cast<std::size_t>(least) * plan.position_bytes),
         amount(plan.limit_bytes), amount(plan.fixed_bytes), amount(plan.margin_bytes),
         plan.fitting_positions);
  }
  return is_set ? least : std::min(plan.fitting_positions, positions_of_all(config));
}

}  // namespace clora
