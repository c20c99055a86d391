#include "ops/bf16_rows.hpp"

#include "ops/launch_shape.hpp"
#include "ops/quant.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kPiece =
    8;  // elements a work-item, and 16 bytes, of which strides are made

}  // namespace

Bf16Rows record_bf16_rows(Batch& batch, const Tensor& w, float scale) {
  require_weight("bf16_rows", "w", w);
  Bf16Rows rows{.data = w,
                .rows = static_cast<std::uint32_t>(w.shape()[0]),
                .columns = static_cast<std::uint32_t>(w.shape()[1]),
                .stride = static_cast<std::uint32_t>(w.shape()[1])};
  const bool as_it_lies = w.type() == DType::bf16 && w.layout() == Layout::plain && scale == 1 &&
                          rows.columns % kPiece == 0;
  if (as_it_lies) return rows;
  rows.stride = static_cast<std::uint32_t>(round_up(rows.columns, kPiece));
  rows.data = batch.temporary({rows.rows, rows.stride}, DType::bf16, "bf16 rows");
  Defines defines;
  set_weight_type(defines, w);
  Launch launch{{}, {}, dequantise_cost(w), "gemm/round operand"};
  launch.kernel = batch.context().kernel("bf16_rows.cl", "bf16_rows", defines);
  launch.grid = {{round_up(rows.stride / kPiece, 32), round_up(rows.rows, 8), 1}, {32, 8, 1}};
  batch.launch(std::move(launch), rows.data, w, rows.rows, rows.columns, rows.stride, scale);
  return rows;
}

}  // namespace clora
