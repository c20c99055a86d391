// The structs that grouped_gemm's kernel for CPUs takes by value, from the kernel's own file.
#pragma once

#include <cstdint>

namespace clora {

using uint = std::uint32_t;  // OpenCL C's
#include "cl/experts/grouped_problem.clh"

}  // namespace clora
