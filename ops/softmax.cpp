#include "ops/softmax.hpp"

#include "ops/variant_launch.hpp"

namespace clora {
namespace {

void test_forward(SelfTest& test) {
  record_softmax(test.batch(), test.output({5, 53}), test.input({5, 53}, 4));
}

void test_backward(SelfTest& test) {
  record_softmax_backward(test.batch(), test.output({5, 53}), test.input({5, 53}),
                          test.input({5, 53}));
}

}  // namespace

// An exp counts as 8 flops.
Cost softmax_cost(const Shape& x) {
  const auto n = static_cast<double>(x.elements());
  return {12 * n, 8 * n};
}

Cost softmax_backward_cost(const Shape& y) {
  const auto n = static_cast<double>(y.elements());
  return {4 * n, 12 * n};
}

void record_softmax(Batch& batch, const Tensor& y, const Tensor& x) {
  require_tensor("softmax", "x", x, x.shape());
  require_tensor("softmax", "y", y, x.shape());
  const std::int64_t rows = x.shape().rows();
  const auto width = static_cast<std::int32_t>(x.shape().last());
  Launch launch =
      rows_launch(batch.context(), "softmax", "softmax_forward", rows, width, test_forward);
  launch.cost = softmax_cost(x.shape());
  launch.label = "softmax/forward";
  batch.launch(std::move(launch), y, x, rows, width);
}

void record_softmax_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& y) {
  require_tensor("softmax", "y", y, y.shape());
  require_tensor("softmax", "dx", dx, y.shape());
  require_tensor("softmax", "dy", dy, y.shape());
  const std::int64_t rows = y.shape().rows();
  const auto width = static_cast<std::int32_t>(y.shape().last());
  Launch launch =
      rows_launch(batch.context(), "softmax", "softmax_backward", rows, width, test_backward);
  launch.cost = softmax_backward_cost(y.shape());
  launch.label = "softmax/backward";
  batch.launch(std::move(launch), dx, dy, y, rows, width);
}

}  // namespace clora
