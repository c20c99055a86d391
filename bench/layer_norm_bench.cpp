// layer_norm/fused/f32/TxD and layer_norm_backward: square shapes, few rows, and SmolLM2-135M's
// hidden size.
#include "clora/ops/rowwise/layer_norm.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/layer_norm_reference.hpp"

namespace clora::bench {
namespace {

constexpr float kEpsilon = 1e-5F;

void layer_norm(OpBench& bench, const Shape& shape) {
  const Operand x(shape, 1);
  const Operand w({shape.last()}, 2);
  const Operand bias({shape.last()}, 4);
  bench.cost = layer_norm_cost(shape);
  bench.record([&](BufferSet& set) {
    const Tensor y = set.output(shape);
    record_layer_norm(set.batch(), y, set.input(x), set.input(w), set.input(bias), kEpsilon);
    set.expect(y, [&] { return reference::layer_norm(x.values, w.values, bias.values, kEpsilon); });
  });
}

void layer_norm_backward(OpBench& bench, const Shape& shape) {
  const Operand x(shape, 1);
  const Operand w({shape.last()}, 2);
  const Operand dy(shape, 3);
  bench.cost = layer_norm_backward_cost(shape, false);
  bench.record([&](BufferSet& set) {
    const Tensor dx = set.output(shape);
    record_layer_norm_backward(set.batch(), dx, set.input(dy), set.input(x), set.input(w), {},
                               kEpsilon);
    set.expect(dx, [&] {
      return reference::layer_norm_backward(dy.values, x.values, w.values, kEpsilon);
    });
  });
}

const bool kAdded = add_family([] {
  for (const Shape& shape : {Shape{1024, 1024}, Shape{64, 1024}, Shape{2048, 576}}) {
    add_cold_and_warm({.op = "layer_norm", .shape = shape}, layer_norm, shape);
    add_cold_and_warm({.op = "layer_norm_backward", .shape = shape}, layer_norm_backward, shape);
  }
});

}  // namespace
}  // namespace clora::bench
