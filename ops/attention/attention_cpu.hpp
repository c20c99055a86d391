// The kernels of attention for CPU devices: cl/attention/attention_decode_cpu.cl,
// attention_cpu.cl, attention_bf16_cpu.cl, and the two of the backward.
#pragma once

#include "ops/attention/attention_spec.hpp"

namespace clora {

inline constexpr std::string_view kAttentionDecodeCpu = "attention_decode_cpu.cl";
inline constexpr std::string_view kAttentionCpu = "attention_cpu.cl";
inline constexpr std::string_view kAttentionBf16Cpu = "attention_bf16_cpu.cl";
inline constexpr std::string_view kAttentionBackwardCpu = "attention_backward_cpu.cl";
inline constexpr std::string_view kAttentionBackwardBf16Cpu = "attention_backward_bf16_cpu.cl";

// Few rows, one at a time; the keys are split over work-groups.
const char* attention_decode_cpu_refusal(const Context& context, const AttentionForward& forward);
bool attention_decode_cpu_passed(Context& context, const AttentionForward& forward);
void record_attention_decode_cpu(Batch& batch, const AttentionForward& forward);

// Many rows, in f32. Errors: unsupported if the device has too little local memory.
bool attention_cpu_passed(Context& context, const AttentionForward& forward);
void record_attention_cpu(Batch& batch, const AttentionForward& forward);

// Many rows, with operands rounded to bf16.
const char* attention_bf16_cpu_refusal(const Context& context, const AttentionForward& forward);
bool attention_bf16_cpu_passed(Context& context, const AttentionForward& forward);
void record_attention_bf16_cpu(Batch& batch, const AttentionForward& forward);

// The backward in f32. Errors: unsupported if the device has too little local memory.
bool attention_backward_cpu_passed(Context& context, const AttentionBackward& backward);
AttentionGradients record_attention_backward_cpu(Batch& batch, const AttentionBackward& backward);

// The backward with operands rounded to bf16.
const char* attention_backward_bf16_cpu_refusal(const Context& context,
                                                const AttentionBackward& backward);
bool attention_backward_bf16_cpu_passed(Context& context, const AttentionBackward& backward);
AttentionGradients record_attention_backward_bf16_cpu(Batch& batch,
                                                      const AttentionBackward& backward);

}  // namespace clora
