// Grids that several kernel families share.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "clora/runtime/commands/batch.hpp"
#include "clora/runtime/device/device.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {

// Rows of a CPU kernel by work-group.
struct RowShare {
  std::uint32_t rows_per_group = 1;
  std::uint32_t groups = 1;
};

// Four groups per compute unit: few enough that launching is cheap, enough to balance the load.
inline RowShare share_rows(std::uint32_t rows, const Device& device) {
  const std::uint32_t groups = std::min(rows, 4 * std::max(1U, device.compute_units));
  const std::uint32_t rows_per_group = divide_up(rows, groups);
  return {rows_per_group, divide_up(rows, rows_per_group)};
}

// Single-item groups for a CPU device: a few per core to balance the load, none without work.
inline std::size_t cpu_groups(const Device& device, std::int64_t parts) {
  const std::size_t most = 4 * std::max<std::size_t>(device.compute_units, 1);
  return std::clamp<std::size_t>(static_cast<std::size_t>(parts), 1, most);
}

// Work-items of a group that reduces by a tree in local memory: a power of two that the device
// supports, at most `most`.
inline std::size_t reduction_group(const Device& device, std::size_t most = 256) {
  return std::min(most, std::bit_floor(device.max_work_group_size));
}

// `groups` groups of `group` items in one dimension.
inline Grid groups_of(std::size_t group, std::size_t groups) {
  return {{group * groups, 1, 1}, {group, 1, 1}};
}

}  // namespace clora
