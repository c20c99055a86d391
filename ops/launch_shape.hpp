// The distribution of rows over the work-groups of kernels for CPU devices, sizes as kernel
// arguments, and small predicates of tensors that several ops use.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/device.hpp"
#include "runtime/tensor.hpp"

namespace clora {

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A size as a kernel argument. REQUIRES: below 2^32, which the ops check.
constexpr std::uint32_t u32(std::int64_t size) { return static_cast<std::uint32_t>(size); }

constexpr std::uint32_t divide_up(std::uint32_t value, std::uint32_t by) {
  return (value + by - 1) / by;
}

struct RowShare {
  std::uint32_t rows_per_group = 1;
  std::uint32_t groups = 1;
};

// Up to four groups per compute unit: few enough for cheap launches, enough to balance the load.
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

// Whether they begin at the same byte. Tensors of equal size and type are then identical.
inline bool begin_alike(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.offset_bytes() == b.offset_bytes();
}

}  // namespace clora
