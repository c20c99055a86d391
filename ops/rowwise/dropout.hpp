// dropout: y = x * mask / (1 - p), where mask is a counter-based random bit of (seed, step, site,
// element).
// Its backward is dropout of the gradient with the same counters.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

struct DropoutSpec {
  float probability = 0;   // in [0, 1)
  std::uint32_t site = 0;  // unique for each place in the model
};

// y = drop(x), or y += drop(x). y may be x. seed_and_step: u32 [2].
void record_dropout(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& seed_and_step,
                    const DropoutSpec& spec, bool accumulate);

}  // namespace clora
