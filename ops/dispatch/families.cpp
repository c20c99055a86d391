#include "ops/dispatch/families.hpp"

namespace clora {
namespace {

// tests/ops/families_test.cpp fails if one is missing, or has no typical problem in
// ops/dispatch/implementation_report.cpp.
constexpr std::string_view kFamilies[] = {"gemm",
                                          "attention",
                                          "attention_backward",
                                          "cache_append",
                                          "rope_append",
                                          "grouped_gemm",
                                          "lora_gradient",
                                          "delta_rule",
                                          "delta_rule_backward",
                                          "cross_entropy",
                                          "cross_entropy_head",
                                          "decode_layers",
                                          "rms_norm",
                                          "layer_norm",
                                          "softmax",
                                          "soft_cap",
                                          "swiglu",
                                          "gelu",
                                          "rope",
                                          "dropout",
                                          "cast",
                                          "add",
                                          "embedding",
                                          "quant",
                                          "adamw",
                                          "adamw_q8",
                                          "lion",
                                          "sgd",
                                          "sample"};

}  // namespace

std::span<const std::string_view> op_families() { return kFamilies; }

}  // namespace clora
