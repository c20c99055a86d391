// What a launch of a call moves and computes, as the caller states it: for kernels that come with
// no cost function. Pure functions; thread-safe.
#pragma once

#include <string>

#include "runtime/roofline.hpp"
#include "tools/clc/kernel_call.hpp"

namespace clora {

struct StatedCost {
  Cost cost;  // of one launch; flops 0: not stated
  // Nobody said the bytes: each array is taken to be read or written once.
  bool bytes_assumed = false;

  // "12,288 bytes a launch (assumed: every array once), 2,048 flops"
  std::string text() const;
};

// The texts are expressions (expression.hpp), in which the name of an array means its bytes and
// that of a number among the arguments its value; empty: not stated. Errors: UsageError.
StatedCost stated_cost(const KernelCall& call, const std::string& bytes, const std::string& flops);

}  // namespace clora
