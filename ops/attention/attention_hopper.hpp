// cl/attention/attention_wgmma.cl, cl/attention/attention_hdim64_wgmma.cl and
// cl/attention/attention_backward_wgmma.cl: attention on Hopper's tensor cores (wgmma).
#pragma once

#include "ops/attention/attention_spec.hpp"

namespace clora {

inline constexpr std::string_view kAttentionWgmma64 = "attention_hdim64_wgmma.cl";
inline constexpr std::string_view kAttentionWgmma128 = "attention_wgmma.cl";
inline constexpr std::string_view kAttentionBackwardWgmma = "attention_backward_wgmma.cl";

// Launches cl/attention/attention_order.cl, on any device.
Tensor record_tile_order(Batch& batch, const Tensor& first, const Tensor& last,
                         std::int64_t concurrent);

// Heads of 64 elements, of 128, and the backward of both.
const char* attention_wgmma64_refusal(const Context& context, const AttentionForward& forward);
const char* attention_wgmma128_refusal(const Context& context, const AttentionForward& forward);
bool attention_wgmma_passed(Context& context, const AttentionForward& forward);
void record_attention_wgmma(Batch& batch, const AttentionForward& forward);

const char* attention_backward_wgmma_refusal(const Context& context,
                                             const AttentionBackward& backward);
bool attention_backward_wgmma_passed(Context& context, const AttentionBackward& backward);
// Returns the tensors written: if H > G, its dk and dv hold one part per query head.
AttentionGradients record_attention_backward_wgmma(Batch& batch, const AttentionBackward& backward);

}  // namespace clora
