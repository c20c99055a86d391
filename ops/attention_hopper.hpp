// cl/attention_wgmma.cl, cl/attention_hdim64_wgmma.cl and cl/attention_backward_wgmma.cl: attention
// on Hopper's matrix units.
#pragma once

#include "ops/attention_spec.hpp"

namespace clora {

inline constexpr std::string_view kAttentionBackwardWgmma = "attention_backward_wgmma.cl";

// The forward's file, for heads of E elements.
std::string_view attention_wgmma_file(std::int64_t E);

// cl/attention_order.cl, on any device.
Tensor record_tile_order(Batch& batch, const Tensor& first, const Tensor& last,
                         std::int64_t beside);

// REQUIRES (both): spec.wants_wgmma().

// log_sum_exp may be empty.
void record_attention_wgmma(Batch& batch, const AttentionSpec& spec, const Tensor& y,
                            const Tensor& log_sum_exp, const AttentionInputs& in);
// cost: of all its launches. Returns what is written: dk and dv of each query head, where heads are
// grouped.
AttentionGradients record_attention_backward_wgmma(Batch& batch, const AttentionSpec& spec,
                                                   const AttentionGradients& out, const Tensor& dy,
                                                   const Tensor& y, const Tensor& log_sum_exp,
                                                   const AttentionInputs& in, Cost cost);
// dk and dv of `out`, of parts [T, H, E] that the above has made.
void record_add_heads(Batch& batch, const AttentionGradients& out, const AttentionGradients& parts);

}  // namespace clora
