// cl/attention/attention.cl, attention_decode.cl and attention_backward.cl: attention of any sizes
// on any device, one row per work-group.
#pragma once

#include "ops/attention/attention_spec.hpp"

namespace clora {

inline constexpr std::string_view kAttentionPortable = "attention.cl";
inline constexpr std::string_view kAttentionDecode = "attention_decode.cl";
inline constexpr std::string_view kAttentionBackwardPortable = "attention_backward.cl";

inline constexpr std::string_view kAttentionDecodeStaged = "attention_decode_staged.cl";

// Few rows: the keys are split over work-groups.
void record_attention_decode(Batch& batch, const AttentionForward& forward);
// Several rows over keys of bf16, whose blocks are copied to local memory.
const char* attention_decode_staged_refusal(const Context& context,
                                            const AttentionForward& forward);
void record_attention_decode_staged(Batch& batch, const AttentionForward& forward);
// Any sizes. Errors (also of the backward): unsupported if a head exceeds the local memory.
void record_attention_portable(Batch& batch, const AttentionForward& forward);
AttentionGradients record_attention_backward_portable(Batch& batch,
                                                      const AttentionBackward& backward);

// dy . y of each row and head.
Tensor record_attention_dots(Batch& batch, const AttentionBackward& backward);

}  // namespace clora
