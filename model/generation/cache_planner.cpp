#include "model/generation/cache_planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "model/generation/adapter_slots.hpp"
#include "model/generation/engine_sizes.hpp"
#include "model/generation/largest_steps.hpp"
#include "model/generation/staged_forward.hpp"
#include "model/transformer/sub_layer.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kMarginShare = 16;  // 1 / 16 of the limit

std::int64_t positions_of_all(const EngineConfig& config) {
  return config.max_sequences * config.max_positions;
}

std::size_t bytes_of_position(const LanguageModel& model, DType type) {
  std::size_t bytes = 0;
  for (const BlockSpec& block : block_specs(model)) {
    for (const SubLayerSpec& layer : block) {
      if (!std::holds_alternative<AttentionLayerSpec>(layer.f)) continue;
      for (const Shape& shape : cache_shapes(layer, 1)) {
        bytes += bytes_of(type, static_cast<std::size_t>(shape.elements()));
      }
    }
  }
  return bytes;
}

// What is left by a model's recorded forward.
CachePlan plan_of(LanguageModel& model, const PagedForwardConfig& forward) {
  BufferPool& memory = model.context().pool();
  memory.trim();
  const MemoryStatistics pool = memory.statistics();
  CachePlan plan{.limit_bytes = pool.limit_bytes,
                 .position_bytes = bytes_of_position(model, forward.cache_type)};
  // The unused rest of slabs that are partly used counts against the limit.
  plan.margin_bytes = plan.limit_bytes / kMarginShare + pool.cached_bytes;
  const std::size_t cache =
      plan.position_bytes * static_cast<std::size_t>(forward.pages * kPagePositions);
  plan.fixed_bytes = pool.in_use_bytes - cache;
  const std::size_t taken = plan.fixed_bytes + plan.margin_bytes;
  const std::size_t left = plan.limit_bytes > taken ? plan.limit_bytes - taken : 0;
  const auto fits = static_cast<std::int64_t>(left / std::max<std::size_t>(1, plan.position_bytes));
  plan.fitting_positions = fits / kPagePositions * kPagePositions;
  return plan;
}

std::string amount(std::size_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / 1048576.0;
  return mebibytes < 1024 ? fmt::format("{:.1f} MiB", mebibytes)
                          : fmt::format("{:.2f} GiB", mebibytes / 1024);
}

}  // namespace

CachePlan plan_cache(LanguageModel& model, const EngineConfig& config,
                     std::span<const Adapter* const> adapters) {
  return plan_cache(std::array{ModelStage{&model, config.base_adapter}}, config, adapters);
}

CachePlan plan_cache(std::span<const ModelStage> stages, const EngineConfig& given,
                     std::span<const Adapter* const> adapters) {
  EngineConfig config = given;
  if (has_states(stages.front().model->config())) config.max_sequences = 1;
  for (const ModelStage& stage : stages) {
    require(stage.model->context().config().dry_run,
            "cache plan: the model's context must be a dry run");
  }
  config.cache_positions = config.max_positions;
  AdapterSlots slots(stages, {.slots = config.device_adapters, .max_rank = config.max_rank});
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    slots.add(fmt::format("adapter {}", i), *adapters[i]);
  }
  StagedForward forward(stages, forward_configs(stages, config, slots));
  const bool adapted = slots.stacks() != nullptr && !adapters.empty();
  for (const StepShape& shape : largest_steps(config, shape_rules(stages), adapted)) {
    forward.record(shape);
  }
  std::vector<CachePlan> plans;
  for (const ModelStage& stage : stages) plans.push_back(plan_of(*stage.model, forward.config()));
  return *std::ranges::min_element(plans, {}, &CachePlan::fitting_positions);
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
