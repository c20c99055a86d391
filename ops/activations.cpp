#include "ops/activations.hpp"

#include "clora/ops/gemm/bf16_rows.hpp"
#include "clora/ops/quant/quant.hpp"
#include "clora/ops/rowwise/cast.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// The shape in which the kernels for weights process x: one row of all elements or, if there are
// too many for a 32-bit index, the rows of x.
Shape rows_of(const Tensor& x) {
  constexpr std::int64_t kMaxRowElements = std::int64_t{1} << 30U;
  if (x.elements() <= kMaxRowElements) return {1, x.elements()};
  return {x.elements() / x.shape().last(), x.shape().last()};
}

}  // namespace

void require_any_activation(std::string_view op, std::string_view name, const Tensor& t,
                            const Shape& shape) {
  const bool is_half = !t.empty() && (t.type() == DType::bf16 || t.type() == DType::f16);
  require_tensor(op, name, t, shape, is_half ? t.type() : DType::f32);
}

void require_apart_or_alike(std::string_view op, std::string_view name, const Tensor& output,
                            const Tensor& input) {
  require(output.type() == input.type() || !overlap(output, input),
          "{}: {}, {}, must not overlap the input {}", op, name, output.text(), input.text());
}

Tensor record_upcast(Batch& batch, const Tensor& x) {
  if (x.type() == DType::f32) return x;
  const Tensor wide = batch.temporary(x.shape(), DType::f32, "upcast");
  const Shape rows = rows_of(x);
  record_dequantise(batch, wide.reshape(rows), x.reshape(rows));
  return wide;
}

void record_cast_to_bf16(Batch& batch, const Tensor& out, const Tensor& x) {
  require_tensor("cast to bf16", "x", x, out.shape());
  require_tensor("cast to bf16", "out", out, out.shape(), DType::bf16);
  const Shape rows = rows_of(x);
  if (rows[0] > 1 && rows[1] % 8 != 0) {
    fail(ErrorCode::unsupported,
         "cast to bf16: more than 2^30 elements need a row length that is a multiple of 8, got {}; "
         "use fewer rows",
         x.text());
  }
  record_bf16_rows_into(batch, out.reshape(rows), x.reshape(rows), 1, "activations/round");
}

Tensor f32_result(Batch& batch, const Tensor& y) {
  return y.type() == DType::f32 ? y : batch.temporary(y.shape(), DType::f32, "f32 result");
}

void record_result(Batch& batch, const Tensor& y, const Tensor& f32) {
  if (y.type() == DType::bf16) return record_cast_to_bf16(batch, y, f32);
  if (y.type() != DType::f32) record_cast(batch, y, f32);
}

}  // namespace clora
