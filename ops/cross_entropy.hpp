// cross_entropy: the loss of a language model and its gradient, alone and joined with the head.
//
//   loss[t]   = log(sum_v exp(logits[t, v])) - logits[t, targets[t]], 0 where targets[t] < 0
//   dlogits   = (softmax(logits) - onehot(targets)) * weight, 0 where targets[t] < 0
// weight [1] f32 lies on the device: 1 / labelled tokens of the whole step.
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// loss [T] and dlogits [T, V] are overwritten; dlogits may be logits itself, or empty (no
// gradient; weight may then be empty too). A target of V or above, which the host should not let
// through, gives a loss of NaN and no gradient.
void record_cross_entropy(Batch& batch, const Tensor& loss, const Tensor& dlogits,
                          const Tensor& logits, const Tensor& targets, const Tensor& weight);

// The head joined with the loss: never holds [T, V].
//   logits = x head^T, loss as above, dx [T, D] = dlogits head
// loss and dx are overwritten; dx empty: the loss alone, weight may then be empty too.
// By chunks of rows: rows_per_chunk is rounded up to what the device's alignment of views asks for
// (32 rows on pocl, 128 on NVIDIA) and down to what one allocation holds; 0: chosen for the device.
// In variant wgmma by chunks of the vocabulary, in two products with operands rounded to bf16 that
// are right for any loss: entries_per_chunk is rounded up to 256; 0: such that the scratch is about
// 300 MiB. The same bits every run.
// REQUIRES: dx is not x.
struct HeadLossInputs {
  Tensor x;        // [T, D], f32 or bf16
  Tensor head;     // [V, D], any storage type
  Tensor targets;  // [T] i32
  Tensor weight;   // [1] f32
  std::int64_t rows_per_chunk = 0;
  std::int64_t entries_per_chunk = 0;
};
void record_head_loss(Batch& batch, const Tensor& loss, const Tensor& dx,
                      const HeadLossInputs& inputs);

// sum [1] (+)= sum of x (any shape), compensated: right to an ulp or two, in an order that is
// always the same. accumulate adds to sum.
void record_sum(Batch& batch, const Tensor& sum, const Tensor& x, bool accumulate);

Cost cross_entropy_cost(const Shape& logits);

}  // namespace clora
