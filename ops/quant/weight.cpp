#include "clora/ops/quant/weight.hpp"

#include <algorithm>
#include <utility>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {

Weight::Weight(Tensor whole) {
  if (!whole.empty()) parts_.push_back(std::move(whole));
}

Weight::Weight(std::vector<Tensor> parts) : parts_(std::move(parts)) {
  require(!parts_.empty(), "weight: at least one part is required, got none");
  for (const Tensor& part : parts_) {
    const bool matches = !part.empty() && part.shape().rank() == 2 && part.type() == type() &&
                         part.layout() == layout() && part.shape()[1] == parts_[0].shape()[1];
    require(matches, "weight: parts must be matrices of one type, layout and row length, got {}",
            part.empty() ? "nothing" : part.text());
  }
}

const Tensor& Weight::whole() const {
  require(parts_.size() == 1, "weight: one tensor is required, got {}",
          empty() ? "nothing" : text());
  return parts_.front();
}

Shape Weight::shape() const {
  if (!is_split()) return parts_.front().shape();
  std::int64_t rows = 0;
  for (const Tensor& part : parts_) rows += part.shape()[0];
  return {rows, parts_.front().shape()[1]};
}

std::size_t Weight::bytes() const {
  std::size_t bytes = 0;
  for (const Tensor& part : parts_) bytes += part.bytes();
  return bytes;
}

std::string Weight::text() const {
  if (!is_split()) return parts_.front().text();
  return fmt::format("{} {}{} in {} parts", name_of(type()),
                     layout() == Layout::packed ? "packed " : "", shape().text(), parts_.size());
}

std::int64_t part_row_step(const Device& device) {
  constexpr std::int64_t kSmallestElement = 2;  // bytes
  return std::max<std::int64_t>(device.base_alignment_bytes / kSmallestElement, kPackedRows);
}

std::vector<RowRange> part_rows(const Device& device, std::string_view name, std::int64_t rows,
                                std::size_t row_bytes) {
  const auto allocation = static_cast<std::int64_t>(device.max_allocation_bytes);
  const auto bytes_per_row = static_cast<std::int64_t>(row_bytes);
  if (rows * bytes_per_row <= allocation) return {{0, rows}};
  const std::int64_t step = part_row_step(device);
  const std::int64_t most = allocation / bytes_per_row / step * step;
  if (most == 0) {
    fail(ErrorCode::out_of_memory,
         "weight: {} rows of {} need {} KiB, the largest allocation on '{}' is {} KiB; use a model "
         "with lower-bit quantisation, or another device",
         step, name, step * bytes_per_row >> 10, device.name, allocation >> 10);
  }
  const std::int64_t even = round_up(divide_up(rows, divide_up(rows, most)), step);
  std::vector<RowRange> ranges;
  for (std::int64_t begin = 0; begin < rows; begin += even) {
    ranges.push_back({begin, std::min(even, rows - begin)});
  }
  return ranges;
}

}  // namespace clora
