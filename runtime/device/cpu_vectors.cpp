#include "runtime/device/cpu_vectors.hpp"

#if defined(__x86_64__)
#include <sys/platform/x86.h>
#endif

namespace clora {

// glibc lists the features, rather than the compiler, so that
// tests/simulator/cpu_without_avx512.cpp can hide some.
CpuVectors cpu_vectors() {
#if defined(__x86_64__)
  if (CPU_FEATURE_ACTIVE(AVX512F)) return kAvx512Vectors;
  if (CPU_FEATURE_ACTIVE(AVX2) && CPU_FEATURE_ACTIVE(FMA)) return kAvx2Vectors;
  return {};
#elif defined(__aarch64__)
  return kNeonVectors;
#else
  return {};
#endif
}

}  // namespace clora
