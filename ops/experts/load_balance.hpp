// load_balance: the loss that balances the load of experts, over the rows of all layers of experts
// of a pass together, as transformers' load_balancing_loss_func computes it (Fedus et al., 2021).
//
//   loss = X * the sum over experts e of (f_e / L N) * (P_e / L N)
//   f_e = how many of the L N rows have chosen expert e, P_e = the sum of their p_e =
//   softmax(logits)
//
// X experts, L layers, of each the first N of T rows: the others are padding. The loss is K, the
// experts of a row, if all have the same load, and at most X. f is not differentiated.
//
// record_load_of_layer() of each layer, then record_load_balance_loss(), then
// record_load_balance_backward() of any layers. Deterministic.
#pragma once

#include "clora/ops/experts/router.hpp"

namespace clora {

struct LoadBalance {
  Tensor sums;     // [L, B, 2, X]: P and f of each layer and block of rows
  Tensor dp;       // [X]: the gradient of the loss to the probabilities of a row
  Tensor scalars;  // [2]: the weight of the loss in the gradient, and N as f32

  std::int64_t layers() const { return sums.shape()[0]; }   // L
  std::int64_t experts() const { return sums.shape()[3]; }  // X
};

// Its tensors by the caller's allocator. `size` is that of each layer; scalars is the caller's.
LoadBalance make_load_balance(std::int64_t layers, const RoutingSize& size, const Tensor& scalars,
                              const AllocateTensor& allocate);

// Overwrites the layer's part of load.sums. logits [T, X]; ids [T, K], of the router.
void record_load_of_layer(Batch& batch, const LoadBalance& load, std::int64_t layer,
                          const Tensor& logits, const Tensor& ids);
// loss [1] += the loss of `rows` T rows; overwrites load.dp.
void record_load_balance_loss(Batch& batch, const Tensor& loss, const LoadBalance& load,
                              std::int64_t rows);
// dlogits [T, X] += weight times the gradient of the loss to the logits of a layer.
void record_load_balance_backward(Batch& batch, const Tensor& dlogits, const Tensor& logits,
                                  const LoadBalance& load);

}  // namespace clora
