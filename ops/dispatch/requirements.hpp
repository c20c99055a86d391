// What implementations need of a Context (ops/dispatch/implementation.hpp). Each function returns
// null if the Context has it, and otherwise the reason in the words of a refusal.
#pragma once

#include "clora/runtime/context.hpp"

namespace clora {

inline const char* needs_nothing(const Context&) { return nullptr; }

// No kernels of its own for such work: the variants portable and matrix.
const char* needs_portable(const Context& context);
// Kernels for CPU devices: work-groups of one item with wide vectors.
const char* needs_cpu(const Context& context);
// The same, and dot products of bf16 pairs or matrix tiles, which round their operands to bf16.
const char* needs_bf16_cpu(const Context& context);
// NVIDIA's warp-level matrix instructions, mma.sync: the variant mma.
const char* needs_mma(const Context& context);
// A unit of cl/matrix: the variants mma and matrix. Hopper's GPUs have mma.sync, too, but wgmma is
// faster.
const char* needs_matrix_unit(const Context& context);
// Hopper's warp-group matrix instructions, wgmma: the variant wgmma.
const char* needs_wgmma(const Context& context);
// Work-groups that may wait for one another (ops/dispatch/co_resident_groups.hpp) on a CPU device,
// or on a GPU.
const char* needs_co_resident_cpu(const Context& context);
const char* needs_co_resident_gpu(const Context& context);

}  // namespace clora
