// adamw_q8/fused/f32/N: the step of adamw/fused/f32/N with moments in 8 bits.
#include "clora/ops/optimizers/adamw_q8.hpp"

#include "bench/support/adamw_step.hpp"
#include "bench/support/op_bench.hpp"

namespace clora::bench {
namespace {

// REQUIRES: the number of elements is a multiple of 4.
void adamw_q8(OpBench& bench, const Shape& shape) {
  const std::int64_t n = shape.elements();
  bench.cost = adamw_q8_cost(n);
  first_step_of(bench, shape,
                [&](BufferSet& set, const Tensor& parameters, const Tensor& gradients,
                    const Tensor& settings, const Tensor& norm) {
                  const auto moment = [&] {
                    return QuantisedMoment{set.zeros({n / 4}).slice(0, shape, DType::u8),
                                           set.zeros({moment_blocks(n)})};
                  };
                  record_adamw_q8(set.batch(),
                                  {.parameters = parameters,
                                   .first = moment(),
                                   .root = moment(),
                                   .gradients = gradients,
                                   .settings = settings},
                                  norm);
                });
}

const bool kAdded = add_family([] {
  const Shape shape{kAdapterParameters};
  add({.op = "adamw_q8", .shape = shape}, adamw_q8, shape);
});

}  // namespace
}  // namespace clora::bench
