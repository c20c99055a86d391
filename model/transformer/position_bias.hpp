// The bias of attention scores by the distance of two tokens, from its table by buckets (Raffel et
// al., 2020, in both directions). Pure host arithmetic. Private to model/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clora/model/configuration/model_config.hpp"

namespace clora {

// The bucket of a key at `distance` = key - row: half of the buckets are for keys after the row. Of
// each half, half are for one distance each, and the others grow up to max_distance.
std::int64_t bucket_of(std::int64_t distance, const PositionBiasSpec& spec);

// [H, 2 positions - 1]: of each head the bias at distances from -(positions - 1) on, from the table
// [buckets, H].
std::vector<float> bias_by_distance(std::span<const float> table, const PositionBiasSpec& spec,
                                    std::int64_t heads, std::int64_t positions);

}  // namespace clora
