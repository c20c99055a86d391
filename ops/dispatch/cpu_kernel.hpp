// The choice of families that have one kernel for CPU devices and a portable one for all others.
// Their implementations are named cpu and portable (ops/dispatch/implementation.hpp).
#pragma once

#include <string_view>

#include "ops/dispatch/variant_dispatch.hpp"

namespace clora {

struct CpuKernel {
  std::string_view family;           // "softmax"
  std::string_view file;             // "softmax_cpu.cl"
  std::string_view name;             // of its self-test: "softmax_forward"
  double tolerance = kF32Tolerance;  // as in FastKernel
};

// Whether to record the kernel for CPU devices: the Context is for them, and the kernel has passed
// `self_test`.
bool takes_cpu_kernel(Context& context, const CpuKernel& kernel, const SelfTestRecord& self_test);

}  // namespace clora
