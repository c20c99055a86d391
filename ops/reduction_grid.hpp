// Launch shapes that the reducing families (cross_entropy, adamw, sample) share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

#include "runtime/batch.hpp"

namespace clora {

// Work-items of a group that reduces by a tree in local memory: a power of two that the device
// supports, at most `most`.
inline std::size_t reduction_group(const Device& device, std::size_t most = 256) {
  return std::min(most, std::bit_floor(device.max_work_group_size));
}

// `groups` groups of `group` items in one dimension.
inline Grid groups_of(std::size_t group, std::size_t groups) {
  return {{group * groups, 1, 1}, {group, 1, 1}};
}

// Groups of one item for a CPU device: a few per core, so that a late one costs little, but none
// without work.
inline std::size_t cpu_groups(const Device& device, std::int64_t parts) {
  const std::size_t most = 4 * std::max<std::size_t>(device.compute_units, 1);
  return std::clamp<std::size_t>(static_cast<std::size_t>(parts), 1, most);
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace clora
