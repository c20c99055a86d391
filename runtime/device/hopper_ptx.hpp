// Hopper's warp-group instructions (wgmma, setmaxnreg) from OpenCL C. For the .cpp files of
// runtime/ only.
//
// NVIDIA's compiler emits PTX for the target sm_90, which lacks these instructions: they require
// sm_90a (PTX ISA, "Target Architecture"). A kernel file writes each one as a PTX comment in inline
// assembly, asm volatile("//@90a wgmma.fence.sync.aligned;"), in which operands are substituted as
// usual. The program is built from source; in its PTX, the target is changed to sm_90a and these
// comments become instructions; then the program is built from that PTX. "exit; //@90a-" is present
// only in the first build: it leaves no work for the driver's assembler, which takes most of a
// build's time.
#pragma once

#include <string>
#include <string_view>

namespace clora {

// Whether a kernel's text has instructions in such comments.
bool has_hopper_instructions(std::string_view source);

// Returns the PTX of a build of that text, with its comments as instructions. Errors: build_failed,
// if it is not PTX for sm_90.
std::string with_hopper_instructions(std::string ptx);

}  // namespace clora
