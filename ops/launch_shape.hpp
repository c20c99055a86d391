// How rows are shared among the work-groups of kernels for CPU devices, sizes as kernels take them,
// and small facts about tensors that several ops check.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/device.hpp"
#include "runtime/tensor.hpp"

namespace clora {

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A size as kernels take it. REQUIRES: below 2^32, which ops see to.
constexpr std::uint32_t u32(std::int64_t size) { return static_cast<std::uint32_t>(size); }

constexpr std::uint32_t divide_up(std::uint32_t value, std::uint32_t by) {
  return (value + by - 1) / by;
}

struct RowShare {
  std::uint32_t rows_per_group = 1;
  std::uint32_t groups = 1;
};

// Four groups a compute unit: few enough that launching is cheap, enough to even out.
inline RowShare share_rows(std::uint32_t rows, const Device& device) {
  const std::uint32_t groups = std::min(rows, 4 * std::max(1U, device.compute_units));
  const std::uint32_t rows_per_group = divide_up(rows, groups);
  return {rows_per_group, divide_up(rows, rows_per_group)};
}

// Whether two tensors share bytes.
inline bool overlap(const Tensor& a, const Tensor& b) {
  if (a.empty() || b.empty() || a.storage() != b.storage()) return false;
  return a.offset_bytes() < b.offset_bytes() + b.bytes() &&
         b.offset_bytes() < a.offset_bytes() + a.bytes();
}

// Whether they begin at the same byte: of one size and type, whether they are the same.
inline bool begin_alike(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.offset_bytes() == b.offset_bytes();
}

}  // namespace clora
