// The steps of an engine that take the most memory: of decoding by all sequences, and of
// step_tokens rows of prompts at their beginnings, and at the ends of sequences of max_positions,
// whose keys are all read. Guesses of drafts may make a step of more paged rows.
#pragma once

#include <vector>

#include "clora/model/generation/engine.hpp"
#include "model/generation/step_layout.hpp"

namespace clora {

std::vector<StepShape> largest_steps(const EngineConfig& config, const ShapeRules& rules,
                                     bool adapted);

}  // namespace clora
