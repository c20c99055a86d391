#include "ops/activations.hpp"

#include "ops/launch_shape.hpp"
#include "ops/quant.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kPiece = 8;  // elements of a work-item of bf16_rows

}  // namespace

void require_activation(std::string_view op, std::string_view name, const Tensor& t,
                        const Shape& shape) {
  const bool rounded = !t.empty() && t.type() == DType::bf16;
  require_tensor(op, name, t, shape, rounded ? DType::bf16 : DType::f32);
}

void require_apart_or_alike(std::string_view op, std::string_view name, const Tensor& output,
                            const Tensor& input) {
  require(output.type() == input.type() || !overlap(output, input),
          "{}: {}, {}, must not lie where {} lies that is read", op, name, output.text(),
          input.text());
}

Tensor record_widened(Batch& batch, const Tensor& x) {
  if (x.type() == DType::f32) return x;
  const Tensor wide = batch.temporary(x.shape(), DType::f32, "widened");
  const Shape row{1, x.elements()};
  record_dequantise(batch, wide.reshape(row), x.reshape(row));
  return wide;
}

void record_rounded(Batch& batch, const Tensor& out, const Tensor& x) {
  require_tensor("rounding", "x", x, out.shape());
  require_tensor("rounding", "out", out, out.shape(), DType::bf16);
  const auto elements = static_cast<std::uint32_t>(x.elements());
  Defines defines;
  set_weight_type(defines, x);
  Launch launch{{}, {}, {0, 6.0 * static_cast<double>(elements)}, "activations/round"};
  launch.kernel = batch.context().kernel("bf16_rows.cl", "bf16_rows", defines);
  launch.grid = {{round_up(divide_up(elements, kPiece), 64), 1, 1}, {64, 1, 1}};
  batch.launch(std::move(launch), out, x, std::uint32_t{1}, elements, elements, 1.0F);
}

Tensor f32_result(Batch& batch, const Tensor& y) {
  return y.type() == DType::f32 ? y : batch.temporary(y.shape(), DType::f32, "to be rounded");
}

void record_result(Batch& batch, const Tensor& y, const Tensor& f32) {
  if (y.type() != DType::f32) record_rounded(batch, y, f32);
}

}  // namespace clora
