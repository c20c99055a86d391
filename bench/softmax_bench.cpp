// softmax/FORM/f32/T x N: square rows.
#include "ops/softmax.hpp"

#include "bench/support/replayed_op.hpp"
#include "tests/reference/softmax_reference.hpp"

namespace clora {
namespace {

using bench::Operand;

const std::initializer_list<Shape> kShapes = {{1024, 1024}, {64, 1024}};

std::size_t width_of(const Shape& shape) { return static_cast<std::size_t>(shape.last()); }

void forward(benchmark::State& state, const Shape& shape) {
  const Operand x(shape, 1);
  const Tensor y = bench::zeros(shape);
  bench::time_op(state, y, reference::softmax(x.values, width_of(shape)), softmax_cost(shape),
                 [&](Batch& b) { record_softmax(b, y, x.tensor); });
}

void backward(benchmark::State& state, const Shape& shape) {
  const Operand y(shape, 1);
  const Operand dy(shape, 2);
  const Tensor dx = bench::zeros(shape);
  bench::time_op(state, dx, reference::softmax_backward(dy.values, y.values, width_of(shape)),
                 softmax_backward_cost(shape),
                 [&](Batch& b) { record_softmax_backward(b, dx, dy.tensor, y.tensor); });
}

const bool kRegistered = bench::register_shapes("softmax/fused/f32", kShapes, forward) &&
                         bench::register_shapes("softmax_backward/fused/f32", kShapes, backward);

}  // namespace
}  // namespace clora
