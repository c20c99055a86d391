// The -D parameters of cl/vectors_cpu.clh.
#pragma once

#include "clora/runtime/device/device.hpp"
#include "clora/runtime/programs/program_cache.hpp"

namespace clora {

// AVX-512's values are those of the kernels without the parameters.
inline void define_cpu_vectors(Defines& defines, const Device& device) {
  const CpuVectors& vectors = device.vectors;
  if (vectors == kAvx512Vectors) return;
  defines.set("VECTOR_FLOATS", vectors.floats).set("VECTOR_REGISTERS", vectors.registers);
}

}  // namespace clora
