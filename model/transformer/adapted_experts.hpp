// The matrices of one role of all experts in a recorded pass, with the adapters of those that have
// one, forward and backward (ops/experts/grouped_gemm.hpp).
#pragma once

#include "clora/ops/experts/grouped_gemm.hpp"
#include "model/transformer/recording.hpp"

namespace clora {

class AdaptedExperts {
 public:
  // shape: [N, K] of each expert. Errors: unsupported if experts have adapters of different ranks
  // or scales, or if the adapter has dropout and the pass trains.
  AdaptedExperts(Recording& recording, const StackedLinears& linears, const Shape& shape);

  bool has_adapter() const { return rank_ > 0; }
  // Returns y [S, N] of x [S, K] or [T, K].
  Tensor record_forward(const Tensor& x, ExpertRows rows, const ExpertPlan& plan);
  // dx [S, K] (+)= the gradient through the matrices of dy [S, N]; not computed if dx is empty.
  // Accumulates the gradients of b and keeps what record_da() needs.
  void record_backward(const Tensor& dx, const Tensor& dy, const ExpertPlan& plan,
                       Accumulate accumulate);
  // Accumulates the gradients of a. REQUIRES: x is that of the forward.
  void record_da(const Tensor& x, ExpertRows rows, const ExpertPlan& plan);

 private:
  void find_adapters(const Adapter& adapter);

  Recording& recording_;
  const StackedLinears& linears_;
  Shape shape_;
  const Adapter* adapter_ = nullptr;  // if an expert has one
  std::int64_t rank_ = 0;             // R, of all experts that have one
  float scale_ = 1;
  Tensor a_offsets_, bt_offsets_;  // [X] u32, in the adapter's flat buffers
  Tensor s_, ds_;                  // [S, R]
};

}  // namespace clora
