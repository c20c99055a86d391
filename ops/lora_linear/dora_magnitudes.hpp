// DeferredMagnitudes: gradients of magnitudes (dora.hpp) whose sums over chunks of rows are not
// recorded yet, so that those of several layers are one launch. Must be flushed before the
// gradients are read. Threads: one at a time.
#pragma once

#include <vector>

#include "clora/runtime/commands/batch.hpp"

namespace clora {

class DeferredMagnitudes {
 public:
  // dmagnitude [N] += sum_c parts[c, N] / magnitude [N], now or later. parts [chunks, N] must not
  // change until then.
  void add(Batch& batch, const Tensor& dmagnitude, const Tensor& parts, const Tensor& magnitude);
  void flush(Batch& batch);

 private:
  struct Sum {
    Tensor dmagnitude, parts, magnitude;
  };
  std::vector<Sum> waiting_;  // of different gradients
};

}  // namespace clora
