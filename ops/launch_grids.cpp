#include "ops/launch_grids.hpp"

#include <algorithm>
#include <bit>

#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::size_t kGroupsPerComputeUnit = 4;
constexpr std::size_t kElementsPerFatGroup = 4096;
constexpr std::size_t kSmallestRowGroup = 32;
constexpr std::size_t kLargestRowGroup = 256;
constexpr std::size_t kFlatGroup = 128;

std::size_t count_of(std::int64_t n, const char* what) {
  require(n >= 1, "launch grid: at least one {} is required, got {}", what, n);
  return static_cast<std::size_t>(n);
}

std::size_t cpu_groups(const Device& device, std::size_t wanted) {
  const std::size_t most = kGroupsPerComputeUnit * std::max<std::size_t>(device.compute_units, 1);
  return std::clamp<std::size_t>(wanted, 1, most);
}

// The largest power of two that the device allows and that is at most `wanted`.
std::size_t group_size(const Device& device, std::size_t wanted) {
  return std::bit_floor(std::min(wanted, std::max<std::size_t>(device.max_work_group_size, 1)));
}

}  // namespace

Grid cpu_rows_grid(const Device& device, std::int64_t rows) {
  return single_item_groups(cpu_groups(device, count_of(rows, "row")));
}

Grid cpu_flat_grid(const Device& device, std::int64_t elements) {
  const std::size_t n = count_of(elements, "element");
  return single_item_groups(cpu_groups(device, n / kElementsPerFatGroup));
}

RowGroups portable_rows_grid(const Device& device, std::int64_t rows, std::int64_t width) {
  const std::size_t row_count = count_of(rows, "row");
  const std::size_t fitting = std::bit_ceil(count_of(width, "column"));
  const std::size_t local =
      group_size(device, std::clamp(fitting, kSmallestRowGroup, kLargestRowGroup));
  return {{{row_count * local, 1, 1}, {local, 1, 1}}, {local * sizeof(float)}};
}

Grid portable_flat_grid(const Device& device, std::int64_t elements) {
  const std::size_t n = count_of(elements, "element");
  const std::size_t local = group_size(device, kFlatGroup);
  return {{(n + local - 1) / local * local, 1, 1}, {local, 1, 1}};
}

}  // namespace clora
