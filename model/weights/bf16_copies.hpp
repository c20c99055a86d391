// Bf16Copies: bf16 copies of a model's weights, for devices whose products of many rows multiply in
// bf16 (WeightForm::bf16_copy), so that they do not convert whole matrices at each use.
//
// Copies are made on the device, in the order of loading, as long as a budget lasts: a weight
// without one is converted at each use, with the same result. Private to model/. Threads: one at a
// time.
#pragma once

#include <cstddef>

#include "clora/ops/quant/weight.hpp"
#include "clora/runtime/context.hpp"

namespace clora {

class Bf16Copies {
 public:
  // budget_bytes: of all copies together. Must not outlive the context.
  Bf16Copies(Context& context, std::size_t budget_bytes)
      : context_(context), left_bytes_(budget_bytes) {}

  // The weight, each of its parts with a copy (Tensor::bf16_copy); as it is if the copies exceed
  // the rest of the budget or an allocation of the device, or if the device has less memory than
  // its driver told. Errors: device.
  Weight with_copy(const Weight& w);

  std::size_t bytes() const noexcept { return bytes_; }  // of all copies so far

 private:
  Weight copied(const Weight& w);

  Context& context_;
  std::size_t left_bytes_;
  std::size_t bytes_ = 0;
};

}  // namespace clora
