#include "ops/swiglu.hpp"

#include "ops/launch_shape.hpp"
#include "ops/variant_launch.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

constexpr std::int64_t kTestElements = 9001;  // several groups

void test_forward(SelfTest& test, DType type, bool keeps) {
  const Shape shape{kTestElements};
  const Tensor y = test.output(shape);
  const SwigluKept kept =
      keeps ? SwigluKept{test.output(shape, DType::bf16), test.output(shape, DType::bf16)}
            : SwigluKept{};
  record_swiglu(test.batch(), y, test.input(shape, 8, type), test.input(shape, 1, type), kept);
}

void test_backward(SelfTest& test, DType type) {
  const Shape shape{kTestElements};
  record_swiglu_backward(test.batch(), test.output(shape), test.output(shape), test.input(shape),
                         test.input(shape, 8, type), test.input(shape, 1, type));
}

// The type of gate and up.
DType checked_type(std::string_view op, const Tensor& gate, const Tensor& up) {
  const bool kept = !gate.empty() && gate.type() == DType::bf16;
  const DType type = kept ? DType::bf16 : DType::f32;
  require_tensor(op, "gate", gate, gate.shape(), type);
  require_tensor(op, "up", up, gate.shape(), type);
  return type;
}

// An element of an output of another size than gate's lies elsewhere.
void require_apart(std::string_view name, const Tensor& output, const Tensor& gate,
                   const Tensor& up) {
  require(output.type() == gate.type() || (!overlap(output, gate) && !overlap(output, up)),
          "swiglu: {} must alias neither gate nor up, whose type is another", name);
}

}  // namespace

// An exp counts as 8 flops.
Cost swiglu_cost(const Shape& y, DType gate_type, bool keeps) {
  const auto n = static_cast<double>(y.elements());
  return {13 * n, (4 + (gate_type == DType::f32 ? 8 : 4) + (keeps ? 4 : 0)) * n};
}

Cost swiglu_backward_cost(const Shape& dy, DType gate_type) {
  const auto n = static_cast<double>(dy.elements());
  return {18 * n, (12 + (gate_type == DType::f32 ? 8 : 4)) * n};
}

void record_swiglu(Batch& batch, const Tensor& y, const Tensor& gate, const Tensor& up,
                   const SwigluKept& kept) {
  const DType type = checked_type("swiglu", gate, up);
  require_tensor("swiglu", "y", y, gate.shape());
  require_apart("y", y, gate, up);
  const bool keeps = !kept.gate.empty() || !kept.up.empty();
  const std::int64_t n = gate.elements();
  const auto launch = [&](std::string_view function) {
    Launch made = flat_launch(batch.context(), "swiglu", function, n,
                              [=](SelfTest& test) { test_forward(test, type, keeps); });
    made.cost = swiglu_cost(gate.shape(), type, keeps);
    made.label = "swiglu/forward";
    return made;
  };
  if (keeps) {
    require(type == DType::f32, "swiglu: what is kept must be rounded from f32; gate is bf16");
    require_tensor("swiglu", "kept.gate", kept.gate, gate.shape(), DType::bf16);
    require_tensor("swiglu", "kept.up", kept.up, gate.shape(), DType::bf16);
    require_apart("kept.gate", kept.gate, gate, up);
    require_apart("kept.up", kept.up, gate, up);
    batch.launch(launch("swiglu_forward_keeping"), y, gate, up, kept.gate, kept.up, n);
  } else {
    batch.launch(launch(type == DType::f32 ? "swiglu_forward" : "swiglu_forward_kept"), y, gate, up,
                 n);
  }
}

void record_swiglu_backward(Batch& batch, const Tensor& dgate, const Tensor& dup, const Tensor& dy,
                            const Tensor& gate, const Tensor& up) {
  const DType type = checked_type("swiglu", gate, up);
  require_tensor("swiglu", "dy", dy, gate.shape());
  require_tensor("swiglu", "dgate", dgate, gate.shape());
  require_tensor("swiglu", "dup", dup, gate.shape());
  require_apart("dgate", dgate, gate, up);
  require_apart("dup", dup, gate, up);
  const std::int64_t n = gate.elements();
  Launch launch = flat_launch(batch.context(), "swiglu",
                              type == DType::f32 ? "swiglu_backward" : "swiglu_backward_kept", n,
                              [type](SelfTest& test) { test_backward(test, type); });
  launch.cost = swiglu_backward_cost(gate.shape(), type);
  launch.label = "swiglu/backward";
  batch.launch(std::move(launch), dgate, dup, dy, gate, up, n);
}

}  // namespace clora
