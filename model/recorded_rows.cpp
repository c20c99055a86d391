#include "model/recorded_rows.hpp"

#include "runtime/error.hpp"

#include <algorithm>
#include <bit>

namespace clora {

RecordedRows::RecordedRows(Context& context, std::int64_t rows) : rows_(rows) {
  const auto step = static_cast<std::int64_t>(context.device().base_alignment_bytes / 4);
  stride_ = (std::max<std::int64_t>(rows, 2) + step - 1) / step * step;
  buffer_ = context.allocate({kParts * stride_}, DType::i32, MemoryTag::activations);
}

Tensor RecordedRows::part(std::int64_t index) const {
  return buffer_.slice(static_cast<std::size_t>(index * stride_) * 4, {rows_}, DType::i32);
}

Tensor RecordedRows::weight() const {
  return buffer_.slice(static_cast<std::size_t>(5 * stride_) * 4, {1}, DType::f32);
}

Tensor RecordedRows::seed_and_step() const {
  return buffer_.slice(static_cast<std::size_t>(6 * stride_) * 4, {2}, DType::u32);
}

Fence RecordedRows::upload(Context& context, const PackedRows& packed, const Scalars& scalars,
                           std::vector<std::int32_t>& staging) const {
  require(packed.rows() == static_cast<std::size_t>(rows_),
          "recorded rows: {} rows are needed, got {}", rows_, packed.rows());
  staging.assign(static_cast<std::size_t>(kParts * stride_), 0);
  const auto at = [&](std::int64_t index) { return staging.begin() + index * stride_; };
  std::ranges::copy(packed.ids, at(0));
  std::ranges::copy(packed.targets, at(1));
  std::ranges::copy(packed.positions, at(2));
  std::ranges::copy(packed.first, at(3));
  std::ranges::copy(packed.last, at(4));
  *at(5) = std::bit_cast<std::int32_t>(scalars.weight);
  *at(6) = std::bit_cast<std::int32_t>(scalars.seed);
  *(at(6) + 1) = std::bit_cast<std::int32_t>(scalars.step);
  return context.write_async(buffer_, std::as_bytes(std::span(staging)));
}

}  // namespace clora
