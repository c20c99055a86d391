// The structs that gemm's kernels take by value, from the kernels' own files.
#pragma once

#include <cstdint>

namespace clora {

using uint = std::uint32_t;  // OpenCL C's
#include "cl/gemm/cpu/gemm_share_cpu.clh"
#include "cl/gemm/gemm_problem.clh"

}  // namespace clora
