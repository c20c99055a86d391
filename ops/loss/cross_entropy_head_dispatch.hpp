// The implementations of the head fused with its loss, and the choice among them
// (ops/dispatch/implementation.hpp).
#pragma once

#include "clora/ops/loss/cross_entropy.hpp"
#include "ops/dispatch/implementation.hpp"

namespace clora {

// What record_head_loss() writes and reads.
struct HeadLoss {
  Tensor loss;  // [T]
  Tensor dx;    // [T, D], or empty
  HeadLossInputs in;

  bool wants_gradient() const { return !dx.empty(); }
};

struct HeadLossImplementation {
  std::string_view name;
  std::string_view file;
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const HeadLoss&);
  bool (*passed)(Context&, const HeadLoss&);
  void (*record)(Batch&, const HeadLoss&);  // REQUIRES: no refusal; checked tensors
};

// The last one computes any head.
const ImplementationList<HeadLossImplementation>& head_loss_implementations();
const HeadLossImplementation& choose_head_loss(Context& context, const HeadLoss& head);

// gemm and cross_entropy by chunks of rows, on any device.
void record_head_loss_by_rows(Batch& batch, const HeadLoss& head);

}  // namespace clora
