// The tensors of the self-tests of optimizers with one value of state per parameter.
#pragma once

#include <array>
#include <bit>

#include "clora/ops/optimizers/parameter_update.hpp"
#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

inline MomentumTensors momentum_self_test(SelfTest& test) {
  const UpdateSettings settings{.learning_rate = 0.02F, .weight_decay = 0.1F, .clip_norm = 1};
  const Shape shape{150};
  const auto words = std::bit_cast<std::array<float, 8>>(settings);
  return {.parameters = test.changed(test.input(shape)),
          .momentum = test.changed(test.input(shape)),
          .gradients = test.input(shape),
          .settings = test.input({8}, words)};
}

}  // namespace clora
