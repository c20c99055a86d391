// The built-in functions of OpenCL C as source texts, embedded at build time: builtins.clh and its
// parts.
#pragma once

#include <span>

#include "runtime/programs/kernel_sources.hpp"

namespace clora {

// All files of tools/clc/compile/shim, in file order. Static storage.
std::span<const KernelSource> embedded_shim_sources();

}  // namespace clora
