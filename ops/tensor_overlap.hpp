// Whether tensors share memory, which ops check for outputs that may or must not alias inputs.
#pragma once

#include "clora/runtime/memory/tensor.hpp"

namespace clora {

// Whether two tensors share bytes.
inline bool overlap(const Tensor& a, const Tensor& b) {
  if (a.empty() || b.empty() || a.storage() != b.storage()) return false;
  return a.offset_bytes() < b.offset_bytes() + b.bytes() &&
         b.offset_bytes() < a.offset_bytes() + a.bytes();
}

// Whether two tensors begin at the same byte; tensors of equal size and type are then the same.
inline bool same_begin(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.offset_bytes() == b.offset_bytes();
}

}  // namespace clora
