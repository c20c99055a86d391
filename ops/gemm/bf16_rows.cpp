#include "clora/ops/gemm/bf16_rows.hpp"

#include <algorithm>

#include "clora/ops/quant/quant.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Elements per work-item: 16 bytes. Row strides are multiples of it.
constexpr std::uint32_t kVecSize = 8;

// A single row uses a one-dimensional grid.
Grid grid_of(const Device& device, std::uint32_t rows, std::uint32_t stride) {
  const std::uint32_t vecs = divide_up(stride, kVecSize);
  if (rows == 1) return {{round_up(vecs, 64), 1, 1}, {64, 1, 1}};
  constexpr std::size_t kVecs = 32, kMaxRows = 8;
  const auto group_rows = std::clamp<std::size_t>(device.max_work_group_size / kVecs, 1, kMaxRows);
  return {{round_up(vecs, kVecs), round_up(rows, group_rows), 1}, {kVecs, group_rows, 1}};
}

}  // namespace

Bf16Rows record_bf16_rows(Batch& batch, const Tensor& w, float scale) {
  require_weight("bf16_rows", "w", w);
  const auto in = [&](const Tensor& data) {
    return Bf16Rows{.data = data,
                    .rows = static_cast<std::uint32_t>(w.shape()[0]),
                    .columns = static_cast<std::uint32_t>(w.shape()[1]),
                    .stride = static_cast<std::uint32_t>(data.shape()[1])};
  };
  const bool is_plain = w.layout() == Layout::plain;
  if (scale == 1 && is_plain && are_bf16_rows(w.type(), w.shape()[1])) return in(w);
  if (scale == 1 && w.bf16_copy() != nullptr) return in(*w.bf16_copy());
  const Tensor rows = batch.temporary(shape_in_bf16_rows(w), DType::bf16, "bf16 rows");
  record_bf16_rows_into(batch, rows, w, scale, "gemm/round operand");
  return in(rows);
}

Shape shape_in_bf16_rows(const Tensor& w) {
  return {w.shape()[0], round_up(w.shape()[1], std::int64_t{kVecSize})};
}

bool are_bf16_rows(DType type, std::int64_t columns) {
  return type == DType::bf16 && columns % kVecSize == 0;
}

void record_bf16_rows_into(Batch& batch, const Tensor& out, const Tensor& w, float scale,
                           std::string_view label) {
  const auto rows = static_cast<std::uint32_t>(w.shape()[0]);
  const auto columns = static_cast<std::uint32_t>(w.shape()[1]);
  const auto stride = static_cast<std::uint32_t>(out.shape()[1]);
  Defines defines;
  set_weight_type(defines, w);
  const Cost cost{0, static_cast<double>(w.bytes() + out.bytes())};
  Launch launch{{}, grid_of(batch.context().device(), rows, stride), cost, std::string(label)};
  launch.kernel = batch.context().kernel("bf16_rows.cl", "bf16_rows", defines);
  batch.launch(std::move(launch), out, w, rows, columns, stride, scale);
}

}  // namespace clora
