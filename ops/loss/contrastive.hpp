// contrastive: the in-batch contrastive loss of text vectors (InfoNCE, van den Oord et al., 2018;
// the multiple negatives ranking loss of Henderson et al., 2017) and its gradient.
//
// Each anchor should be nearer to its own text, the positive, than to the other candidates: the
// positives of the other anchors, and the negatives of all. With s[i, j] = scale * x[i] . x[j]:
//   loss[i] = log(sum_j exp(s[i, j])) - s[i, targets[i]]    over the candidates j
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

struct ContrastiveInputs {
  Tensor x;  // [B, D] f32, the vectors; of length 1 for cosines
  // [B] i32: b of a candidate, the number of its positive of an anchor, -1 of a text that takes no
  // part. REQUIRES: the positive of an anchor is a candidate.
  Tensor targets;
  Tensor weight = {};  // [1] f32: 1 / anchors of the full step; empty if there is no gradient
  float scale = 20;    // 1 / temperature
};

// Overwrites loss [B] f32, 0 for texts that are no anchors, and dx [B, D] f32, the gradient of
// weight * sum of loss; dx may be empty. Deterministic. REQUIRES: dx is not x; scale above 0.
void record_contrastive_loss(Batch& batch, const Tensor& loss, const Tensor& dx,
                             const ContrastiveInputs& inputs);

Cost contrastive_cost(const Shape& x, bool has_gradient);

}  // namespace clora
