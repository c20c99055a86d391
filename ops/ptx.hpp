// Where kernels may use PTX in their OpenCL C: NVIDIA GPUs from sm_80 on, and no Context that is
// portable. The variant portable is the reference that `--precision f32` stands for: plain OpenCL
// C.
#pragma once

#include "runtime/context.hpp"

namespace clora {

// The option that selects PTX in files which have plain OpenCL C, too.
inline constexpr std::string_view kUsePtx = "USE_PTX";

bool has_ptx(const Device& device);
bool uses_ptx(Variant variant, const Device& device);

// Whether kernels of this Context use PTX now: not while a self-test makes its reference.
bool uses_ptx(Context& context);

// Sets -D USE_PTX where uses_ptx().
Defines& set_use_ptx(Defines& defines, Context& context);

}  // namespace clora
