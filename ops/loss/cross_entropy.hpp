// cross_entropy: the loss of a language model and its gradient, alone and fused with the head.
//
//   loss[t]   = log(sum_v exp(logits[t, v])) - logits[t, targets[t]], 0 if targets[t] < 0
//   dlogits   = (softmax(logits) - onehot(targets)) * weight, 0 if targets[t] < 0
// weight is on the device: [1] f32, 1 / labelled tokens of the full step, or one for each row [T].
// With a soft cap c, the loss is that of c tanh(logits / c), and dlogits the gradient of the logits
// before the cap (Gemma 2).
#pragma once

#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/quant/weight.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// With these terms, and lse = log(sum_v exp(logits[t, v])), a labelled row has
//   loss = (1 - e) nll + e (lse - mean of logits[t]) + c lse^2, nll = lse - logits[t, targets[t]]
// and its gradient: e is the label smoothing of torch's CrossEntropyLoss (Szegedy et al., 2016,
// arXiv:1512.00567), c the weight of the z-loss of PaLM (Chowdhery et al., 2022, arXiv:2204.02311).
// REQUIRES: none without a gradient.
struct LossTerms {
  float label_smoothing = 0;  // e, in [0, 1)
  float z_loss = 0;           // c
  Tensor nll = {};            // [T] f32, overwritten with nll; REQUIRES: given if there are terms

  bool any() const { return label_smoothing != 0 || z_loss != 0; }
};

struct CrossEntropyInputs {
  Tensor logits;       // [T, V], f32, bf16 or f16
  Tensor targets;      // [T] i32
  Tensor weight = {};  // [1] or [T] f32; empty if there is no gradient
  float soft_cap = 0;  // of the logits; 0: none
  LossTerms terms = {};
};
// Overwrites loss [T] and dlogits [T, V], of the type of logits; dlogits may be logits itself, or
// empty: no gradient. The host should reject targets of V or above; one of them gives a loss of NaN
// and no gradient.
void record_cross_entropy(Batch& batch, const Tensor& loss, const Tensor& dlogits,
                          const CrossEntropyInputs& inputs);

// The head fused with the loss: never stores [T, V].
//   logits = x head^T, loss as above, dx [T, D] = dlogits head
// Overwrites loss and dx; if dx is empty, computes the loss only, and weight may be empty too.
// Processes chunks of rows: rows_per_chunk is rounded up to the device's alignment of views (32
// rows on pocl, 128 on NVIDIA) and down to the size of one allocation; 0: chosen for the device.
// Variant wgmma processes chunks of the vocabulary, in two products with operands rounded to bf16
// that are accurate for any loss: entries_per_chunk is rounded up to 256; 0: chosen for about 300
// MiB of scratch. Deterministic.
// REQUIRES: dx is not x.
//
// With an adapter, the head is a linear layer of ops/lora_linear/lora_linear.hpp, whose gradients
// accumulate; every device then processes chunks of rows. Each chunk has its own dropout masks:
// dropout.site + 2^16 times the number of the chunk. REQUIRES: gradients are given if dx is.
struct HeadAdapter {
  LoraWeights lora = {};  // without row_groups and column_scale; empty: none
  LoraGradients gradients = {};
  // [V, D] f32, the gradient of the head itself: += dlogits^T x, by chunks of rows as well, if dx
  // is given; empty: the head is frozen.
  Tensor dhead = {};
  bool empty() const { return lora.empty() && dhead.empty(); }
};
struct HeadLossInputs {
  Tensor x;        // [T, D], f32, bf16 or f16
  Weight head;     // [V, D], any storage type
  Tensor targets;  // [T] i32
  Tensor weight;   // [1] or [T] f32
  std::int64_t rows_per_chunk = 0;
  std::int64_t entries_per_chunk = 0;
  float soft_cap = 0;  // of the logits; 0: none
  LossTerms terms = {};
  HeadAdapter adapter = {};
};
void record_head_loss(Batch& batch, const Tensor& loss, const Tensor& dx,
                      const HeadLossInputs& inputs);

// sum [1] (+)= sum of x (any shape), compensated: accurate to an ulp or two, in a fixed order.
// accumulate adds to sum.
void record_sum(Batch& batch, const Tensor& sum, const Tensor& x, bool accumulate);
// sum [1] += sum of x * y (of the same shape), in the same way but for the products' rounding.
void record_dot(Batch& batch, const Tensor& sum, const Tensor& x, const Tensor& y);

Cost cross_entropy_cost(const Shape& logits);

}  // namespace clora
