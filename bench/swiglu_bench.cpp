// swiglu/FORM/f32/T x F: SmolLM2-135M's feed-forward width.
#include "ops/swiglu.hpp"

#include "bench/support/replayed_op.hpp"
#include "tests/reference/swiglu_reference.hpp"

namespace clora {
namespace {

using bench::Operand;

const std::initializer_list<Shape> kShapes = {{2048, 1536}, {1, 1536}};

void forward(benchmark::State& state, const Shape& shape) {
  const Operand gate(shape, 1);
  const Operand up(shape, 2);
  const Tensor y = bench::zeros(shape);
  bench::time_op(state, y, reference::swiglu(gate.values, up.values), swiglu_cost(shape),
                 [&](Batch& b) { record_swiglu(b, y, gate.tensor, up.tensor); });
}

void backward(benchmark::State& state, const Shape& shape) {
  const Operand gate(shape, 1);
  const Operand up(shape, 2);
  const Operand dy(shape, 3);
  const Tensor dgate = bench::zeros(shape);
  const Tensor dup = bench::zeros(shape);
  const auto want = reference::swiglu_backward(dy.values, gate.values, up.values);
  bench::time_op(state, dgate, want.dgate, swiglu_backward_cost(shape), [&](Batch& b) {
    record_swiglu_backward(b, dgate, dup, dy.tensor, gate.tensor, up.tensor);
  });
}

const bool kRegistered = bench::register_shapes("swiglu/fused/f32", kShapes, forward) &&
                         bench::register_shapes("swiglu_backward/fused/f32", kShapes, backward);

}  // namespace
}  // namespace clora
