#include "ops/layer_norm.hpp"

#include "ops/variant_launch.hpp"

namespace clora {
namespace {

void test_forward(SelfTest& test) {
  record_layer_norm(test.batch(), test.output({5, 53}), test.input({5, 53}), test.input({53}),
                    test.input({53}), 1e-5F);
}

void test_backward(SelfTest& test) {
  record_layer_norm_backward(test.batch(), test.output({5, 53}), test.input({5, 53}),
                             test.input({5, 53}), test.input({53}), test.input({5, 53}), 1e-5F);
}

}  // namespace

Cost layer_norm_cost(const Shape& x) {
  const auto n = static_cast<double>(x.elements());
  return {8 * n, 4 * (2 * n + 2 * static_cast<double>(x.last()))};
}

Cost layer_norm_backward_cost(const Shape& x, bool has_residual) {
  const auto n = static_cast<double>(x.elements());
  return {16 * n, 4 * ((has_residual ? 4 : 3) * n + static_cast<double>(x.last()))};
}

void record_layer_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                       const Tensor& bias, float epsilon) {
  require_tensor("layer_norm", "x", x, x.shape());
  require_tensor("layer_norm", "w", w, {x.shape().last()});
  require_tensor("layer_norm", "bias", bias, {x.shape().last()});
  require_tensor("layer_norm", "y", y, x.shape());
  const std::int64_t rows = x.shape().rows();
  const auto width = static_cast<std::int32_t>(x.shape().last());
  Launch launch =
      rows_launch(batch.context(), "layer_norm", "layer_norm_forward", rows, width, test_forward);
  launch.cost = layer_norm_cost(x.shape());
  launch.label = "layer_norm/forward";
  batch.launch(std::move(launch), y, x, w, bias, rows, width, epsilon);
}

void record_layer_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                                const Tensor& w, const Tensor& residual, float epsilon) {
  require_tensor("layer_norm", "x", x, x.shape());
  require_tensor("layer_norm", "w", w, {x.shape().last()});
  require_tensor("layer_norm", "dx", dx, x.shape());
  require_tensor("layer_norm", "dy", dy, x.shape());
  const bool has_residual = !residual.empty();
  if (has_residual) require_tensor("layer_norm", "residual", residual, x.shape());
  const Tensor& added = has_residual ? residual : dx;  // a kernel argument must not be null
  const std::int32_t adds = has_residual ? 1 : 0;
  const std::int64_t rows = x.shape().rows();
  const auto width = static_cast<std::int32_t>(x.shape().last());
  Launch launch =
      rows_launch(batch.context(), "layer_norm", "layer_norm_backward", rows, width, test_backward);
  launch.cost = layer_norm_backward_cost(x.shape(), has_residual);
  launch.label = "layer_norm/backward";
  batch.launch(std::move(launch), dx, dy, x, w, added, adds, rows, width, epsilon);
}

}  // namespace clora
