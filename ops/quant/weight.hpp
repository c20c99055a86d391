// Weight: a frozen matrix [N, K] on the device, in one tensor or in several parts.
//
// A device limits the size of one allocation (Device::max_allocation_bytes: 256 MiB on many
// phones). A larger matrix is stored as parts: row ranges in separate tensors, in order. Ops take
// a Weight; a Tensor converts to a Weight of one part. Kernels read one part at a time
// (docs/decisions/weights-in-parts.md). A value type; copies share the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/runtime/device/device.hpp"
#include "clora/runtime/memory/tensor.hpp"

namespace clora {

class Weight {
 public:
  Weight() = default;
  Weight(Tensor whole);  // implicit: ops take tensors as weights
  // The parts, in the order of their rows. REQUIRES: at least one; matrices of one type, layout and
  // row length.
  explicit Weight(std::vector<Tensor> parts);

  bool empty() const noexcept { return parts_.empty(); }
  bool is_split() const noexcept { return parts_.size() > 1; }
  std::span<const Tensor> parts() const noexcept { return parts_; }
  // The only part. REQUIRES: not empty, not split.
  const Tensor& whole() const;

  // Of all parts together. REQUIRES: not empty.
  Shape shape() const;
  DType type() const { return parts_.front().type(); }
  Layout layout() const { return parts_.front().layout(); }
  std::int64_t elements() const { return shape().elements(); }
  std::size_t bytes() const;
  // "q4_1 packed [64, 768]", "f32 [151936, 896] in 3 parts"
  std::string text() const;

 private:
  std::vector<Tensor> parts_;
};

// Rows [begin, begin + count) of a matrix.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  bool operator==(const RowRange&) const = default;
};
// The parts in which a matrix of `rows` rows of row_bytes each is stored on a device: as few as its
// largest allocation permits. Each but the last starts and ends at a multiple of part_row_step().
// name: for the error. Errors: out_of_memory if part_row_step() rows exceed an allocation.
std::vector<RowRange> part_rows(const Device& device, std::string_view name, std::int64_t rows,
                                std::size_t row_bytes);
// A multiple of kPackedRows, such that a range of a vector of 16-bit or 32-bit elements can start
// at it (Device::base_alignment_bytes).
std::int64_t part_row_step(const Device& device);

}  // namespace clora
