// rms_norm/fused/f32/TxD and rms_norm_backward: square shapes, few rows, and SmolLM2-135M's hidden
// size. recompute: the backward pass also writes the forward result.
#include "clora/ops/rowwise/rms_norm.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/rms_norm_reference.hpp"

namespace clora::bench {
namespace {

constexpr float kEpsilon = 1e-5F;

void rms_norm(OpBench& bench, const Shape& shape) {
  const Operand x(shape, 1);
  const Operand w({shape.last()}, 2);
  bench.cost = rms_norm_cost(shape);
  bench.record([&](BufferSet& set) {
    const Tensor y = set.output(shape);
    record_rms_norm(set.batch(), y, set.input(x), set.input(w), kEpsilon);
    set.expect(y, [&] { return reference::rms_norm(x.values, w.values, kEpsilon); });
  });
}

void rms_norm_backward(OpBench& bench, const Shape& shape, bool recompute) {
  const Operand x(shape, 1);
  const Operand w({shape.last()}, 2);
  const Operand dy(shape, 3);
  const std::optional<DType> y_type = recompute ? std::optional(DType::f32) : std::nullopt;
  bench.cost = rms_norm_backward_cost(shape, false, {.y = y_type});
  bench.record([&](BufferSet& set) {
    const Tensor dx = set.output(shape);
    const Tensor y = recompute ? set.output(shape) : Tensor();
    record_rms_norm_backward(set.batch(), dx, set.input(dy), set.input(x), set.input(w), {},
                             kEpsilon, {.y = y});
    if (recompute) {
      set.expect(y, [&] { return reference::rms_norm(x.values, w.values, kEpsilon); });
    }
    set.expect(
        dx, [&] { return reference::rms_norm_backward(dy.values, x.values, w.values, kEpsilon); });
  });
}

const bool kAdded = add_family([] {
  for (const Shape& shape : {Shape{1024, 1024}, Shape{64, 1024}, Shape{2048, 576}}) {
    add_cold_and_warm({.op = "rms_norm", .shape = shape}, rms_norm, shape);
    add_cold_and_warm({.op = "rms_norm_backward", .shape = shape}, rms_norm_backward, shape, false);
  }
  const Shape rows{2048, 576};
  add({.op = "rms_norm_backward", .shape = rows, .words = {"recompute"}}, rms_norm_backward, rows,
      true);
});

}  // namespace
}  // namespace clora::bench
