// cl/loss/cross_entropy_head_wgmma.cl: the head fused with its loss, on Hopper's tensor cores
// (wgmma).
#pragma once

#include "clora/ops/loss/cross_entropy.hpp"

namespace clora {

// Whether the kernel applies to these inputs: variant wgmma, not a skinny product, w not packed,
// and the self-test passed. The kernel for the loss alone has a separate self-test.
bool takes_head_loss_wgmma(Context& context, const HeadLossInputs& inputs, bool gradient);

// record_head_loss, by chunks of the vocabulary. REQUIRES: takes_head_loss_wgmma().
void record_head_loss_wgmma(Batch& batch, const Tensor& loss, const Tensor& dx,
                            const HeadLossInputs& inputs);

// Tiles of 256 vocabulary entries per chunk: `most`, or somewhat fewer if the last round of
// work-groups would leave much of the GPU idle.
std::int64_t head_chunk_tiles(std::int64_t row_tiles, std::int64_t tiles, std::int64_t most,
                              std::int64_t units);

}  // namespace clora
