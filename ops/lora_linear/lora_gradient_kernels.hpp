// cl/lora_linear/lora_linear_cpu.cl and cl/lora_linear/lora_linear.cl: adapter gradients on CPU
// devices, and on any device.
#pragma once

#include <span>

#include "clora/ops/lora_linear/lora_gradient.hpp"

namespace clora {

inline constexpr std::string_view kLoraCpu = "lora_linear_cpu.cl";
inline constexpr std::string_view kLoraPortable = "lora_linear.cl";

// Neither of the functions that record computes `shrunk`. REQUIRES: one problem.
bool lora_gradient_cpu_passed(Context& context, const LoraGradientProduct& p);
void record_gradient_cpu(Batch& batch, std::span<const LoraGradientProduct> problem);

inline constexpr std::size_t kMaxPortableGradients = 4;  // per launch
// REQUIRES: at most as many, of which each can join those before it; distinct `out`.
void record_gradients_portable(Batch& batch, std::span<const LoraGradientProduct> problems);
// Whether `p` has the rows, the rank and the types of `problems`, and is aligned as they are.
bool portable_gradients_can_join(std::span<const LoraGradientProduct> problems,
                                 const LoraGradientProduct& p);

}  // namespace clora
