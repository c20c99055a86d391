// cl/attention/attention_wgmma.cl, cl/attention/attention_hdim64_wgmma.cl and
// cl/attention/attention_backward_wgmma.cl: attention on Hopper's tensor cores (wgmma).
#pragma once

#include "ops/attention/attention_spec.hpp"

namespace clora {

inline constexpr std::string_view kAttentionBackwardWgmma = "attention_backward_wgmma.cl";

// The kernel file of the forward for heads of E elements.
std::string_view attention_wgmma_file(std::int64_t E);

// Launches cl/attention/attention_order.cl, on any device.
Tensor record_tile_order(Batch& batch, const Tensor& first, const Tensor& last,
                         std::int64_t concurrent);

// REQUIRES (both functions): spec.wants_wgmma().

// log_sum_exp may be empty.
void record_attention_wgmma(Batch& batch, const AttentionSpec& spec, const Tensor& y,
                            const Tensor& log_sum_exp, const AttentionInputs& in);
// Returns the tensors written: if H > G, its dk and dv hold one part per query head.
AttentionGradients record_attention_backward_wgmma(Batch& batch, const AttentionSpec& spec,
                                                   const AttentionBackward& backward);

}  // namespace clora
