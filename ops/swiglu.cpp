#include "ops/swiglu.hpp"

#include "ops/variant_launch.hpp"

namespace clora {
namespace {

constexpr std::int64_t kTestElements = 9001;  // several groups

void test_forward(SelfTest& test) {
  const Shape shape{kTestElements};
  record_swiglu(test.batch(), test.output(shape), test.input(shape, 8), test.input(shape));
}

void test_backward(SelfTest& test) {
  const Shape shape{kTestElements};
  record_swiglu_backward(test.batch(), test.output(shape), test.output(shape), test.input(shape),
                         test.input(shape, 8), test.input(shape));
}

}  // namespace

// An exp counts as 8 flops.
Cost swiglu_cost(const Shape& y) {
  const auto n = static_cast<double>(y.elements());
  return {13 * n, 12 * n};
}

Cost swiglu_backward_cost(const Shape& dy) {
  const auto n = static_cast<double>(dy.elements());
  return {18 * n, 20 * n};
}

void record_swiglu(Batch& batch, const Tensor& y, const Tensor& gate, const Tensor& up) {
  require_tensor("swiglu", "gate", gate, gate.shape());
  require_tensor("swiglu", "up", up, gate.shape());
  require_tensor("swiglu", "y", y, gate.shape());
  const std::int64_t n = gate.elements();
  Launch launch = flat_launch(batch.context(), "swiglu", "swiglu_forward", n, test_forward);
  launch.cost = swiglu_cost(gate.shape());
  launch.label = "swiglu/forward";
  batch.launch(std::move(launch), y, gate, up, n);
}

void record_swiglu_backward(Batch& batch, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                            const Tensor& gate, const Tensor& up) {
  require_tensor("swiglu", "gate", gate, gate.shape());
  require_tensor("swiglu", "up", up, gate.shape());
  require_tensor("swiglu", "dy", dy, gate.shape());
  require_tensor("swiglu", "dgate", dgate, gate.shape());
  require_tensor("swiglu", "dup", dup, gate.shape());
  const std::int64_t n = gate.elements();
  Launch launch = flat_launch(batch.context(), "swiglu", "swiglu_backward", n, test_backward);
  launch.cost = swiglu_backward_cost(gate.shape());
  launch.label = "swiglu/backward";
  batch.launch(std::move(launch), dgate, dup, dy, gate, up, n);
}

}  // namespace clora
