// The sizes that follow from an engine's configuration and its model: those of the cache and of
// recorded steps. The plan of the cache (cache_planner.hpp) uses the same ones as the engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clora/model/generation/engine.hpp"
#include "model/generation/adapter_slots.hpp"
#include "model/generation/step_layout.hpp"
#include "model/transformer/paged_forward.hpp"

namespace clora {

inline constexpr std::int64_t kPagePositions = 16;  // of the cache

// Whether a layer keeps a state of one sequence, which cannot return to an earlier position.
bool has_states(const ModelConfig& config);

// One for each stage. Errors: those of kv_cache_type_of().
std::vector<PagedForwardConfig> forward_configs(std::span<const ModelStage> stages,
                                                const EngineConfig& config,
                                                const AdapterSlots& slots);

// Those that suit the devices of all stages.
ShapeRules shape_rules(std::span<const ModelStage> stages);

// SchedulerConfig::outputs: the largest steps have as many, so that log-probabilities of prompts
// need no further memory, or few.
std::int64_t outputs_of(std::int64_t max_sequences);

}  // namespace clora
