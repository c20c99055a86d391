// One step of adamw with clipping, from moments of 0, for benches of either form of the moments.
#pragma once

#include "bench/support/op_bench.hpp"
#include "tests/reference/adamw_reference.hpp"

namespace clora::bench {

// The parameters of a rank 8 adapter on all linear layers of SmolLM2-135M.
inline constexpr std::int64_t kAdapterParameters = 2442240;

inline UpdateSettings first_step() {
  UpdateSettings settings{.learning_rate = 1e-3F, .clip_norm = 1};
  settings.bias_correction1 = static_cast<float>(1 - double{settings.beta1});
  settings.bias_correction2 = static_cast<float>(1 - double{settings.beta2});
  return settings;
}

// record(set, parameters, gradients, settings, norm) records one step with moments of 0.
template <class Record>
void first_step_of(OpBench& bench, const Shape& shape, Record record) {
  const Operand parameters(shape, 1);
  const Operand gradients(shape, 2);
  const std::vector<double> zeros(parameters.values.size());
  const UpdateSettings settings = first_step();
  reference::AdamwState want{parameters.values, zeros, zeros};
  const std::vector want_norm{reference::adamw(want, gradients.values, settings)};
  bench.tolerance = 1e-6;
  bench.record([&](BufferSet& set) {
    const Tensor updated = set.input(parameters);
    const Tensor norm = set.output({1});
    record(set, updated, set.input(gradients),
           set.input({8}, {reinterpret_cast<const float*>(&settings), 8}), norm);
    set.expect(updated, [&] { return want.parameters; });
    set.expect(norm, [&] { return want_norm; });
  });
}

}  // namespace clora::bench
