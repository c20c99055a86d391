// Hopper's warp-group instructions (wgmma, setmaxnreg) from OpenCL C. For the .cpp files of
// runtime/ only.
//
// NVIDIA's compiler emits PTX for the target sm_90, which has no such instructions: they are of
// sm_90a (PTX ISA, "Target Architecture"). A kernel file writes each one as a PTX comment in inline
// assembly, asm volatile("//@90a wgmma.fence.sync.aligned;"), in which operands are substituted as
// anywhere else. The program is built from source, its PTX taken for sm_90a with these comments as
// instructions, and built from that. "exit; //@90a-" is there in the first build alone: after it
// the driver's assembler, which takes most of a build's time, finds nothing to do.
#pragma once

#include <string>
#include <string_view>

namespace clora {

// Whether a kernel's text has such comments.
bool has_hopper_instructions(std::string_view source);

// The PTX of a build of such a text, with its comments as instructions. Errors: build_failed, where
// it is not PTX for sm_90.
std::string with_hopper_instructions(std::string ptx);

}  // namespace clora
