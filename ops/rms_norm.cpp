#include "ops/rms_norm.hpp"

#include "ops/variant_launch.hpp"

namespace clora {
namespace {

void require_inputs(const Tensor& x, const Tensor& w) {
  require_tensor("rms_norm", "x", x, x.shape());
  require_tensor("rms_norm", "w", w, {x.shape().last()});
}

// Rows of a whole pair of vectors, one vector and a tail.
void test_forward(SelfTest& test) {
  record_rms_norm(test.batch(), test.output({5, 53}), test.input({5, 53}), test.input({53}), 1e-5F);
}

void test_backward(SelfTest& test) {
  record_rms_norm_backward(test.batch(), test.output({5, 53}), test.input({5, 53}),
                           test.input({5, 53}), test.input({53}), test.input({5, 53}), 1e-5F);
}

}  // namespace

Cost rms_norm_cost(const Shape& x) {
  const auto n = static_cast<double>(x.elements());
  return {4 * n, 4 * (2 * n + static_cast<double>(x.last()))};
}

Cost rms_norm_backward_cost(const Shape& x, bool has_residual) {
  const auto n = static_cast<double>(x.elements());
  return {11 * n, 4 * ((has_residual ? 4 : 3) * n + static_cast<double>(x.last()))};
}

void record_rms_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                     float epsilon) {
  require_inputs(x, w);
  require_tensor("rms_norm", "y", y, x.shape());
  const std::int64_t rows = x.shape().rows();
  const auto width = static_cast<std::int32_t>(x.shape().last());
  Launch launch =
      rows_launch(batch.context(), "rms_norm", "rms_norm_forward", rows, width, test_forward);
  launch.cost = rms_norm_cost(x.shape());
  launch.label = "rms_norm/forward";
  batch.launch(std::move(launch), y, x, w, rows, width, epsilon);
}

void record_rms_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Tensor& w, const Tensor& residual, float epsilon) {
  require_inputs(x, w);
  require_tensor("rms_norm", "dx", dx, x.shape());
  require_tensor("rms_norm", "dy", dy, x.shape());
  const bool has_residual = !residual.empty();
  if (has_residual) require_tensor("rms_norm", "residual", residual, x.shape());
  const Tensor& added = has_residual ? residual : dx;  // a kernel argument must not be null
  const std::int32_t adds = has_residual ? 1 : 0;
  const std::int64_t rows = x.shape().rows();
  const auto width = static_cast<std::int32_t>(x.shape().last());
  Launch launch =
      rows_launch(batch.context(), "rms_norm", "rms_norm_backward", rows, width, test_backward);
  launch.cost = rms_norm_backward_cost(x.shape(), has_residual);
  launch.label = "rms_norm/backward";
  batch.launch(std::move(launch), dx, dy, x, w, added, adds, rows, width, epsilon);
}

}  // namespace clora
