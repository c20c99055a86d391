// muon (Keller Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/) for the matrices of
// a flat buffer, with Nesterov's momentum and clipping by the global norm:
//   norm = sqrt(sum g^2);  g *= min(1, clip_norm / (norm + 1e-6)) if clip_norm > 0
//   m = momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m
//   O = newton_schulz(u): the singular values of u become about 1
//   p -= learning_rate * (weight_decay p + 0.2 sqrt(max(rows, columns)) O)
// The factor of O is "match_rms_adamw" of torch.optim.Muon (Liu et al., 2025, arXiv:2502.16982):
// steps are as long as those of AdamW, whose learning rates can be used, and a matrix and its
// transpose get the same one.
//
// Newton-Schulz: X = u / max(|u|_F, 1e-7), then five times X = (a I + b A + c A^2) X with
// A = X X^T, a = 3.4445, b = -4.775, c = 2.0315, for the transpose if there are more rows than
// columns. All factors are polynomials of the first A, so that they are multiplied with one another
// as matrices of the short side and with u once.
#pragma once

#include <cstdint>
#include <span>

#include "clora/ops/optimizers/parameter_update.hpp"
#include "clora/runtime/commands/batch.hpp"

namespace clora {

// A matrix in the flat buffers, and the multipliers of its rates.
struct MuonMatrix {
  std::int64_t offset = 0;  // of its first element
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float rate = 1;
  float decay = 1;
};

// Updates the matrices, and the momentum of all n parameters, and writes the norm before clipping
// to grad_norm [1]. `rates` of the tensors must be empty: each matrix has its own. Returns the sums
// of squares of the gradients, with which record_adamw() clips the parameters that are no matrices.
// Deterministic. REQUIRES: matrices do not overlap; n < 2^32.
Tensor record_muon(Batch& batch, const MomentumTensors& tensors,
                   std::span<const MuonMatrix> matrices, float momentum, const Tensor& grad_norm);

Cost muon_cost(std::int64_t parameters, std::span<const MuonMatrix> matrices);

}  // namespace clora
