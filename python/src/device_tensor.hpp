// DeviceTensor: a tensor on the device, as Python holds it.
#pragma once

#include <string>
#include <string_view>

#include "clora/runtime/memory/tensor.hpp"
#include "python/src/shared_context.hpp"

namespace clora::python {

using DeviceTensor = OnContext<Tensor>;

// The tensor, or an empty one for None. REQUIRES: the pointer is valid or null.
inline Tensor tensor_or_empty(const DeviceTensor* tensor) {
  return tensor == nullptr ? Tensor() : **tensor;
}

// The type of that name ("bf16"). Errors: invalid_argument, naming what is wrong.
DType type_named(std::string_view name);

}  // namespace clora::python
