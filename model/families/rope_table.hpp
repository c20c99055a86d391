// The cosines and sines that record_rope reads (ops/rope.hpp): position p turns pair i by the angle
// p * frequency i. Angles, cosines and sines are made in double and rounded to f32 once, so that
// the last position of a long context is as exact as the first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace clora {

// [P, E/2, 2] (cosine, sine) of positions 0 to P - 1. frequencies [E/2]: angle per position,
// scaling applied, as rope_frequencies() of model/files/model_config.hpp gives them. Every value is
// multiplied by `attention_factor`, so that a score has its square (RopeScaling). REQUIRES:
// positions at least 0; the frequencies and the factor finite.
std::vector<float> make_rope_table(std::int64_t positions, std::span<const double> frequencies,
                                   double attention_factor = 1);

}  // namespace clora
