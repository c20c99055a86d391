// rms_norm/FORM/f32/T x D: rows of SmolLM2-135M's width and square ones.
#include "ops/rms_norm.hpp"

#include "bench/support/replayed_op.hpp"
#include "tests/reference/rms_norm_reference.hpp"

namespace clora {
namespace {

using bench::Operand;

constexpr float kEpsilon = 1e-5F;
const std::initializer_list<Shape> kShapes = {{1024, 1024}, {2048, 576}};

void forward(benchmark::State& state, const Shape& shape) {
  const Operand x(shape, 1);
  const Operand w({shape.last()}, 2);
  const Tensor y = bench::zeros(shape);
  bench::time_op(state, y, reference::rms_norm(x.values, w.values, kEpsilon), rms_norm_cost(shape),
                 [&](Batch& b) { record_rms_norm(b, y, x.tensor, w.tensor, kEpsilon); });
}

void backward(benchmark::State& state, const Shape& shape) {
  const Operand x(shape, 1);
  const Operand w({shape.last()}, 2);
  const Operand dy(shape, 3);
  const Tensor dx = bench::zeros(shape);
  bench::time_op(state, dx, reference::rms_norm_backward(dy.values, x.values, w.values, kEpsilon),
                 rms_norm_backward_cost(shape, false), [&](Batch& b) {
                   record_rms_norm_backward(b, dx, dy.tensor, x.tensor, w.tensor, {}, kEpsilon);
                 });
}

const bool kRegistered = bench::register_shapes("rms_norm/fused/f32", kShapes, forward) &&
                         bench::register_shapes("rms_norm_backward/fused/f32", kShapes, backward);

}  // namespace
}  // namespace clora
