// softmax/fused/f32/TxN and softmax_backward: square shapes and few rows.
#include "clora/ops/rowwise/softmax.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/softmax_reference.hpp"

namespace clora::bench {
namespace {

std::size_t width_of(const Shape& shape) { return static_cast<std::size_t>(shape.last()); }

void softmax(OpBench& bench, const Shape& shape) {
  const Operand x(shape, 1);
  bench.cost = softmax_cost(shape);
  bench.record([&](BufferSet& set) {
    const Tensor y = set.output(shape);
    record_softmax(set.batch(), y, set.input(x));
    set.expect(y, [&] { return reference::softmax(x.values, width_of(shape)); });
  });
}

void softmax_backward(OpBench& bench, const Shape& shape) {
  const Operand y(shape, 1);
  const Operand dy(shape, 2);
  bench.cost = softmax_backward_cost(shape);
  bench.record([&](BufferSet& set) {
    const Tensor dx = set.output(shape);
    record_softmax_backward(set.batch(), dx, set.input(dy), set.input(y));
    set.expect(dx,
               [&] { return reference::softmax_backward(dy.values, y.values, width_of(shape)); });
  });
}

const bool kAdded = add_family([] {
  for (const Shape& shape : {Shape{1024, 1024}, Shape{64, 1024}}) {
    add_cold_and_warm({.op = "softmax", .shape = shape}, softmax, shape);
    add_cold_and_warm({.op = "softmax_backward", .shape = shape}, softmax_backward, shape);
  }
});

}  // namespace
}  // namespace clora::bench
