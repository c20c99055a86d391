// The implementations of the adapter gradients, and the choice among them
// (ops/dispatch/implementation.hpp).
#pragma once

#include "clora/ops/lora_linear/lora_gradient.hpp"
#include "ops/dispatch/implementation.hpp"

namespace clora {

struct LoraGradientImplementation {
  std::string_view name;
  std::string_view file;
  const char* (*unavailable)(const Context&);
  const char* (*refusal)(const Context&, const LoraGradientProduct&);
  bool (*passed)(Context&, const LoraGradientProduct&);
  // One launch, or one per step of the computation, for all problems. REQUIRES: no refusal; one
  // problem, or as many as max_problems and can_join allow.
  void (*record)(Batch&, std::span<const LoraGradientProduct>);
  bool fuses_shrink = false;  // computes `shrunk` with the same read of x
  std::size_t max_problems = 1;
  // Whether a launch for these problems can also compute the other one; if max_problems > 1.
  bool (*can_join)(std::span<const LoraGradientProduct>, const LoraGradientProduct&) = nullptr;
};

// The last one computes any gradient.
const ImplementationList<LoraGradientImplementation>& lora_gradient_implementations();
const LoraGradientImplementation& choose_lora_gradient(Context& context,
                                                       const LoraGradientProduct& p);

}  // namespace clora
