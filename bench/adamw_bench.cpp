// adamw/fused/f32/N: one step with clipping, on the parameters of a rank 8 adapter on all linear
// layers of SmolLM2-135M.
#include "clora/ops/optimizers/adamw.hpp"

#include "bench/support/adamw_step.hpp"
#include "bench/support/op_bench.hpp"

namespace clora::bench {
namespace {

void adamw(OpBench& bench, const Shape& shape) {
  bench.cost = adamw_cost(shape.elements());
  first_step_of(bench, shape,
                [&](BufferSet& set, const Tensor& parameters, const Tensor& gradients,
                    const Tensor& settings, const Tensor& norm) {
                  record_adamw(set.batch(),
                               {.parameters = parameters,
                                .first_moment = set.zeros(shape),
                                .second_moment = set.zeros(shape),
                                .gradients = gradients,
                                .settings = settings},
                               norm);
                });
}

const bool kAdded = add_family([] {
  const Shape shape{kAdapterParameters};
  add({.op = "adamw", .shape = shape}, adamw, shape);
});

}  // namespace
}  // namespace clora::bench
