// The cosines and sines that record_rope reads (ops/rowwise/rope.hpp): position p turns pair i by
// the angle p * frequency i. Angles, cosines and sines are computed in double and rounded to f32
// once, so the last position of a long context is as exact as the first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clora/model/configuration/block_spec.hpp"

namespace clora {

// Returns [P, E/2, 2] (cosine, sine) of positions 0 to P - 1. frequencies [E/2]: angle per
// position, scaling applied, as from rope_frequencies() of model/configuration/model_config.hpp.
// Every value is multiplied by `attention_factor`, which therefore enters a score squared
// (RopeScaling). REQUIRES: positions >= 0; the frequencies and the factor are finite.
std::vector<float> make_rope_table(std::int64_t positions, std::span<const double> frequencies,
                                   double attention_factor = 1);

// The same for a rope; if it has a temperature, row p is multiplied by query_factor(rope, p) as
// well, and is then a table for queries.
std::vector<float> make_rope_table(std::int64_t positions, const RopeSpec& rope);

}  // namespace clora
