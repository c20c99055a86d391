// The cost of one launch as the caller states it, for kernels without a cost function. Pure
// functions; thread-safe.
#pragma once

#include <string>

#include "clora/runtime/profiling/roofline.hpp"
#include "tools/clc/call/kernel_call.hpp"

namespace clora {

struct StatedCost {
  Cost cost;  // per launch; flops 0: not stated
  // The bytes were not stated; each array is assumed to be read or written once.
  bool bytes_assumed = false;

  // "12,288 bytes a launch (assumed: every array once), 2,048 flops"
  std::string text() const;
};

// `bytes` and `flops` are expressions (expression.hpp), in which the name of an array stands for
// its size in bytes and that of a scalar argument for its value; empty: not stated. Errors:
// UsageError.
StatedCost stated_cost(const KernelCall& call, const std::string& bytes, const std::string& flops);

}  // namespace clora
