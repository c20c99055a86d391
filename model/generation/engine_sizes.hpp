// The sizes that follow from an engine's configuration and its model: those of the cache and of
// recorded steps. The plan of the cache (cache_planner.hpp) uses the same ones as the engine.
#pragma once

#include <cstdint>

#include "clora/model/generation/engine.hpp"
#include "model/generation/step_layout.hpp"
#include "model/transformer/paged_forward.hpp"

namespace clora {

inline constexpr std::int64_t kPagePositions = 16;  // of the cache

// Whether a layer keeps a state of one sequence, which cannot return to an earlier position.
bool has_states(const ModelConfig& config);

// stacks: of adapters, or null. Errors: those of kv_cache_type_of().
PagedForwardConfig forward_config(const Context& context, const EngineConfig& config,
                                  const AdapterStacks* stacks);

ShapeRules shape_rules(const Context& context, const ModelConfig& model);

// SchedulerConfig::outputs: the largest steps have as many, so that log-probabilities of prompts
// need no further memory, or few.
std::int64_t outputs_of(std::int64_t max_sequences);

}  // namespace clora
