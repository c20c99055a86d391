// cl/lora_linear/lora_linear_cpu.cl and cl/lora_linear/lora_linear.cl: one adapter gradient on CPU
// devices, and on any device.
#pragma once

#include <span>

#include "clora/ops/lora_linear/lora_gradient.hpp"

namespace clora {

inline constexpr std::string_view kLoraCpu = "lora_linear_cpu.cl";
inline constexpr std::string_view kLoraPortable = "lora_linear.cl";

// REQUIRES (both functions that record): one problem. They do not compute `shrunk`.
bool lora_gradient_cpu_passed(Context& context, const LoraGradientProduct& p);
void record_gradient_cpu(Batch& batch, std::span<const LoraGradientProduct> problem);
void record_gradient_portable(Batch& batch, std::span<const LoraGradientProduct> problem);

}  // namespace clora
