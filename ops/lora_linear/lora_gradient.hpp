// The gradients of adapters' matrices: the product of one gradient, and the deferral of gradients
// so that several share a launch.
#pragma once

#include <span>
#include <vector>

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// out [R, K] += scale * s [T, R]^T x [T, K]
struct LoraGradientProduct {
  Tensor out;  // f32
  Tensor s;    // f32, bf16 or f16, as x; matrix units round both to bf16
  Tensor x;
  float scale = 1;
  // If given, also computed, with the same read of x if the implementation can: shrunk [T, R] =
  // shrink_scale * x b [R, K]^T.
  Tensor shrunk = {};  // bf16
  Tensor b = {};       // f32 or bf16
  float shrink_scale = 1;
};

// Records the gradient with the best implementation for the device.
void record_gradient(Batch& batch, const LoraGradientProduct& p);

// Gradients that are not recorded yet. If its implementation computes several in one launch, a
// gradient whose result is not needed yet stays here until others are recorded or flush() is
// called; otherwise it is recorded at once. REQUIRES: no two with the same `out` before a flush().
class DeferredGradients {
 public:
  // Records p now or later; x and s must not change until then.
  void add(Batch& batch, const LoraGradientProduct& p);
  // Records the deferred gradients and these.
  void record(Batch& batch, std::span<const LoraGradientProduct> problems);
  void flush(Batch& batch) { record(batch, {}); }

 private:
  std::vector<LoraGradientProduct> waiting_;
};

}  // namespace clora
