// adamw/fused/f32/N: one step with clipping, on the parameters of a rank 8 adapter on all linear
// layers of SmolLM2-135M.
#include "clora/ops/adamw.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/adamw_reference.hpp"

namespace clora::bench {
namespace {

AdamwSettings first_step() {
  AdamwSettings settings{.learning_rate = 1e-3F, .clip_norm = 1};
  settings.bias_correction1 = static_cast<float>(1 - double{settings.beta1});
  settings.bias_correction2 = static_cast<float>(1 - double{settings.beta2});
  return settings;
}

void adamw(OpBench& bench, const Shape& shape) {
  const Operand parameters(shape, 1);
  const Operand gradients(shape, 2);
  const std::vector<double> zeros(parameters.values.size());
  const AdamwSettings settings = first_step();
  reference::AdamwState want{parameters.values, zeros, zeros};
  const std::vector want_norm{reference::adamw(want, gradients.values, settings)};
  bench.cost = adamw_cost(shape.elements());
  bench.tolerance = 1e-6;
  bench.record([&](BufferSet& set) {
    const AdamwTensors tensors{
        .parameters = set.input(parameters),
        .first_moment = set.zeros(shape),
        .second_moment = set.zeros(shape),
        .gradients = set.input(gradients),
        .settings = set.input({8}, {reinterpret_cast<const float*>(&settings), 8})};
    const Tensor norm = set.output({1});
    record_adamw(set.batch(), tensors, norm);
    set.expect(tensors.parameters, [&] { return want.parameters; });
    set.expect(norm, [&] { return want_norm; });
  });
}

const bool kAdded = add_family([] {
  const Shape shape{2442240};
  add({.op = "adamw", .shape = shape}, adamw, shape);
});

}  // namespace
}  // namespace clora::bench
