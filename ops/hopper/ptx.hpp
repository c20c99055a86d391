// Whether kernels may use PTX in their OpenCL C: if the Context's Capabilities have it, which are
// those of NVIDIA GPUs from sm_80 on, unless the Context is portable or for CPUs. The portable
// variant, which `--precision f32` selects as the reference, is plain OpenCL C.
#pragma once

#include "clora/runtime/context.hpp"

namespace clora {

// The option that selects PTX in files that also have plain OpenCL C.
inline constexpr std::string_view kUsePtx = "USE_PTX";

// Whether kernels of this Context use PTX now: not while a self-test computes its reference.
bool uses_ptx(Context& context);

// Sets -D USE_PTX if uses_ptx().
Defines& set_use_ptx(Defines& defines, Context& context);

}  // namespace clora
