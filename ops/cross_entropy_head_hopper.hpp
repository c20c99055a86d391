// cl/cross_entropy_head_wgmma.cl: the head joined with its loss, on Hopper's matrix units.
#pragma once

#include "ops/cross_entropy.hpp"

namespace clora {

// Whether it is taken for these inputs: variant wgmma, not a skinny product, w not packed, and a
// kernel that passed its self-test: that of the loss alone is another one.
bool takes_head_loss_wgmma(Context& context, const HeadLossInputs& inputs, bool gradient);

// record_head_loss, by chunks of the vocabulary. REQUIRES: takes_head_loss_wgmma().
void record_head_loss_wgmma(Batch& batch, const Tensor& loss, const Tensor& dx,
                            const HeadLossInputs& inputs);

// Tiles of 256 entries of the vocabulary in a chunk: as many as `bytes` hold, or somewhat fewer
// where the last round of work-groups would leave much of the GPU idle.
std::int64_t head_chunk_tiles(std::int64_t row_tiles, std::int64_t tiles, std::int64_t most,
                              std::int64_t units);

}  // namespace clora
