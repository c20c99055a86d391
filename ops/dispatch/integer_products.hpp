// Whether products of quantised weights multiply in integers (cl/gemm/cpu/gemm_int8_cpu.clh), which
// rounds the activations to 16 bits.
#pragma once

#include "clora/runtime/context.hpp"

namespace clora {

// The instructions for such products in a Context.
inline IntegerDots integer_products(const Context& context) {
  return context.capabilities().integer_dots;
}

// The -D parameter of cl/gemm/cpu/int8_dots_cpu.clh.
inline void define_integer_dots(Defines& defines, IntegerDots dots) {
  if (dots == IntegerDots::avx2) defines.set("INT8_AVX2");
  if (dots == IntegerDots::avx_vnni) defines.set("INT8_AVX_VNNI");
}

}  // namespace clora
