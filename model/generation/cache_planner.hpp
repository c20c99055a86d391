// The size of an engine's KV cache that fits into the memory limit of its device, before anything
// is allocated.
//
// The plan is the engine's own code on a Context that allocates nothing (ContextConfig::dry_run):
// weights, adapters and the largest steps are placed as they will be, so their bytes are those of
// the run. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "clora/model/generation/engine.hpp"
#include "clora/model/transformer/model_stage.hpp"

namespace clora {

struct CachePlan {
  std::size_t limit_bytes = 0;  // of the device's memory, ContextConfig::memory_limit_bytes
  // Of it: for states of requests, and for the unused rest of slabs that are partly used.
  std::size_t margin_bytes = 0;
  std::size_t fixed_bytes = 0;     // weights, adapters, and temporaries of the largest steps
  std::size_t position_bytes = 0;  // of the cache, of all layers; 0: no layer has attention
  // Positions, whole pages, for which the rest is enough.
  std::int64_t fitting_positions = 0;
};

// The largest steps are those of decoding by all sequences, and of step_tokens rows of prompts: at
// their beginnings, and at the ends of sequences of max_positions, whose keys are all read.
// `config.cache_positions` has no effect; `adapters` are those that are served. REQUIRES: the
// model's context is a dry run. Errors: those of PagedForward and AdapterSlots; out_of_memory if a
// step or the weights alone exceed the limit.
CachePlan plan_cache(LanguageModel& model, const EngineConfig& config,
                     std::span<const Adapter* const> adapters);
// The same for a model whose blocks are divided over several devices: the plan of the device on
// which the fewest positions fit. `config.base_adapter` has no effect.
CachePlan plan_cache(std::span<const ModelStage> stages, const EngineConfig& config,
                     std::span<const Adapter* const> adapters);

// The cache positions of an engine with that plan: config.cache_positions if it is set, else
// those that fit, at most max_positions for each sequence. Errors: out_of_memory, with what fits,
// if they do not, or if not even one sequence of max_positions does.
std::int64_t planned_cache_positions(const CachePlan& plan, const EngineConfig& config);

}  // namespace clora
