// embedding_noise: x += noise that is uniform in +-scale of the row, as NEFTune adds it to
// embeddings in training (Jain et al., 2023, arXiv:2310.05914). A function of counters: the same
// counters give the same noise on every device.
#pragma once

#include "clora/runtime/commands/batch.hpp"

namespace clora {

// x [T, D] f32 += scale [T] f32 * u with u uniform in [-1, 1), independent for each element.
// seed_and_step: u32 [2], other noise for each step.
void record_embedding_noise(Batch& batch, const Tensor& x, const Tensor& scale,
                            const Tensor& seed_and_step);

Cost embedding_noise_cost(const Shape& x);

}  // namespace clora
