// cl/loss/cross_entropy_head_wgmma.cl: the head fused with its loss, on Hopper's tensor cores
// (wgmma).
#pragma once

#include "ops/loss/cross_entropy_head_dispatch.hpp"

namespace clora {

inline constexpr std::string_view kHeadLossWgmma = "cross_entropy_head_wgmma.cl";

const char* head_loss_wgmma_refusal(const Context& context, const HeadLoss& head);
// The kernel for the loss alone has a separate self-test; with a gradient, the products for dx must
// have passed theirs, too.
bool head_loss_wgmma_passed(Context& context, const HeadLoss& head);
// By chunks of the vocabulary.
void record_head_loss_wgmma(Batch& batch, const HeadLoss& head);

}  // namespace clora
