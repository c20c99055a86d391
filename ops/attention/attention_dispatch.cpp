#include "ops/attention/attention_dispatch.hpp"

#include "ops/attention/attention_cpu.hpp"
#include "ops/attention/attention_decode_matrix.hpp"
#include "ops/attention/attention_flash.hpp"
#include "ops/attention/attention_hopper.hpp"
#include "ops/attention/attention_matrix.hpp"
#include "ops/attention/attention_portable.hpp"
#include "ops/dispatch/requirements.hpp"

namespace clora {
namespace {

const char* few_rows_refusal(const Context&, const AttentionForward& forward) {
  if (forward.spec.has_bias) return "it has no bias of scores";
  return forward.spec.decodes() ? nullptr : "it is for few rows";
}
const char* decode_cpu_refusal(const Context& context, const AttentionForward& forward) {
  if (const char* why = few_rows_refusal(context, forward)) return why;
  return attention_decode_cpu_refusal(context, forward);
}
const char* decode_staged_refusal(const Context& context, const AttentionForward& forward) {
  if (const char* why = few_rows_refusal(context, forward)) return why;
  return attention_decode_staged_refusal(context, forward);
}
const char* many_rows_refusal(const Context&, const AttentionForward& forward) {
  return forward.spec.decodes() ? "it is for many rows" : nullptr;
}

constexpr AttentionImplementation kForward[] = {
    {"wgmma_hdim64", kAttentionWgmma64, needs_wgmma, attention_wgmma64_refusal,
     attention_wgmma_passed, record_attention_wgmma, ActivationTypes::any, true},
    {"wgmma", kAttentionWgmma128, needs_wgmma, attention_wgmma128_refusal, attention_wgmma_passed,
     record_attention_wgmma, ActivationTypes::any, true},
    {"matrix", kAttentionMatrix, needs_any_matrix_unit, attention_matrix_refusal,
     attention_matrix_passed, record_attention_matrix, ActivationTypes::any, true},
    {"decode_matrix", kAttentionDecodeMatrix, needs_any_mma, attention_decode_matrix_refusal,
     attention_decode_matrix_passed, record_attention_decode_matrix, ActivationTypes::any},
    {"decode_cpu", kAttentionDecodeCpu, needs_cpu, decode_cpu_refusal, attention_decode_cpu_passed,
     record_attention_decode_cpu},
    {"bf16_cpu", kAttentionBf16Cpu, needs_bf16_cpu, attention_bf16_cpu_refusal,
     attention_bf16_cpu_passed, record_attention_bf16_cpu},
    {"cpu", kAttentionCpu, needs_cpu, many_rows_refusal, attention_cpu_passed,
     record_attention_cpu},
    {"decode_staged", kAttentionDecodeStaged, needs_nothing, decode_staged_refusal, needs_no_test,
     record_attention_decode_staged, ActivationTypes::any},
    {"decode", kAttentionDecode, needs_nothing, few_rows_refusal, needs_no_test,
     record_attention_decode, ActivationTypes::any},
    {"flash", kAttentionFlash, needs_nothing, attention_flash_refusal, needs_no_test,
     record_attention_flash, ActivationTypes::any},
    {"portable", kAttentionPortable, needs_nothing, refuses_nothing, needs_no_test,
     record_attention_portable, ActivationTypes::any},
};
constexpr ImplementationList<AttentionImplementation> kForwardList{"attention", kForward};

constexpr AttentionBackwardImplementation kBackward[] = {
    {"wgmma", kAttentionBackwardWgmma, needs_wgmma, attention_backward_wgmma_refusal,
     attention_backward_wgmma_passed, record_attention_backward_wgmma, ActivationTypes::any},
    {"matrix", kAttentionBackwardMatrix, needs_any_matrix_unit, attention_backward_matrix_refusal,
     attention_backward_matrix_passed, record_attention_backward_matrix, ActivationTypes::any},
    {"bf16_cpu", kAttentionBackwardBf16Cpu, needs_bf16_cpu, attention_backward_bf16_cpu_refusal,
     attention_backward_bf16_cpu_passed, record_attention_backward_bf16_cpu},
    {"cpu", kAttentionBackwardCpu, needs_cpu, refuses_nothing, attention_backward_cpu_passed,
     record_attention_backward_cpu},
    {"flash", kAttentionBackwardFlash, needs_nothing, attention_backward_flash_refusal,
     needs_no_test, record_attention_backward_flash, ActivationTypes::one},
    {"portable", kAttentionBackwardPortable, needs_nothing, refuses_nothing, needs_no_test,
     record_attention_backward_portable, ActivationTypes::one},
};
constexpr ImplementationList<AttentionBackwardImplementation> kBackwardList{"attention_backward",
                                                                            kBackward};

}  // namespace

const ImplementationList<AttentionImplementation>& attention_implementations() {
  return kForwardList;
}
const AttentionImplementation& choose_attention(Context& context, const AttentionForward& forward) {
  return choose_implementation(context, kForwardList, forward);
}

const ImplementationList<AttentionBackwardImplementation>& attention_backward_implementations() {
  return kBackwardList;
}
const AttentionBackwardImplementation& choose_attention_backward(
    Context& context, const AttentionBackward& backward) {
  return choose_implementation(context, kBackwardList, backward);
}

}  // namespace clora
