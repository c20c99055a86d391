// What implementations need of a Context (ops/dispatch/implementation.hpp). Each function returns
// null if the Context has it, and otherwise the reason in the words of a refusal. The capabilities
// of a Context are those of its device, capped by its variant (runtime/device/capabilities.hpp).
#pragma once

#include "clora/runtime/context.hpp"
#include "ops/dispatch/co_resident_groups.hpp"

namespace clora {

inline const char* needs_nothing(const Context&) { return nullptr; }

// No kernels of another kind for such work, which are for CPUs and with PTX.
inline const char* needs_portable(const Context& context) {
  const Capabilities& has = context.capabilities();
  return !has.cpu && !has.ptx ? nullptr : "it is for GPUs without PTX, and the variant portable";
}

// Kernels for CPU devices: work-groups of one item with wide vectors.
inline const char* needs_cpu(const Context& context) {
  return context.capabilities().cpu ? nullptr : "it is for CPU devices";
}

// The same, and dot products of bf16 pairs, or matrix tiles, which round their operands to bf16.
inline const char* needs_bf16_cpu(const Context& context) {
  if (const char* reason = needs_cpu(context)) return reason;
  return context.capabilities().bf16_dots ? nullptr
                                          : "it needs dot products of bf16, and precision auto";
}

// PTX in OpenCL C (ops/hopper/ptx.hpp).
inline const char* needs_ptx(const Context& context) {
  return context.capabilities().ptx ? nullptr : "it needs PTX, and precision auto";
}

// NVIDIA's warp-level matrix instructions, on devices without warp-group instructions.
inline const char* needs_mma(const Context& context) {
  const bool has = context.capabilities().matrix == MatrixInstruction::mma_sync;
  return has ? nullptr : "it needs mma.sync, and precision auto";
}

// The same, also on Hopper, for work that has no kernels over wgmma.
inline const char* needs_any_mma(const Context& context) {
  const MatrixInstruction matrix = context.capabilities().matrix;
  const bool has = matrix == MatrixInstruction::mma_sync || matrix == MatrixInstruction::wgmma;
  return has ? nullptr : "it needs mma.sync, and precision auto";
}

// A unit of cl/matrix. Hopper's GPUs have mma.sync, too, but wgmma is faster.
inline const char* needs_matrix_unit(const Context& context) {
  const MatrixInstruction matrix = context.capabilities().matrix;
  const bool has = matrix != MatrixInstruction::none && matrix != MatrixInstruction::wgmma;
  return has ? nullptr : "it needs a matrix unit that is not Hopper's, and precision auto";
}

// A unit of cl/matrix, also on Hopper, for work that has no kernels over wgmma.
inline const char* needs_any_matrix_unit(const Context& context) {
  const bool has = context.capabilities().matrix != MatrixInstruction::none;
  return has ? nullptr : "it needs a GPU's matrix unit, and precision auto";
}

// Hopper's warp-group matrix instructions.
inline const char* needs_wgmma(const Context& context) {
  const bool has = context.capabilities().matrix == MatrixInstruction::wgmma;
  return has ? nullptr : "it needs wgmma, and precision auto";
}

// Work-groups that may wait for one another, of a CPU device or of a GPU.
inline const char* needs_co_resident_groups(const Context& context) {
  const bool any = co_resident_groups(facts_of(context)) > 0;
  return any ? nullptr : "it needs work-groups that all run at once";
}
inline const char* needs_co_resident_cpu(const Context& context) {
  if (const char* reason = needs_cpu(context)) return reason;
  return needs_co_resident_groups(context);
}
inline const char* needs_co_resident_gpu(const Context& context) {
  const bool gpu = !context.capabilities().cpu && context.device().kind == DeviceKind::gpu;
  return gpu ? needs_co_resident_groups(context) : "it is for GPUs";
}

}  // namespace clora
