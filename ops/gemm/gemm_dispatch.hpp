// The implementations of a product, and the choice among them (ops/dispatch/implementation.hpp).
#pragma once

#include <span>

#include "ops/gemm/gemm_kernels.hpp"

namespace clora {

struct GemmImplementation {
  std::string_view name;
  std::string_view file;
  const char* (*refusal)(const Context&, const GemmProduct&);
  bool (*passed)(Context&, const GemmProduct&);
  // Whether it computes the shrink of a product in its own launch. The only place that decides it.
  bool (*fuses_shrink)(const Context&, const GemmProduct&);
  // REQUIRES: no refusal; a shrink only if fuses_shrink(); s is f32 unless takes_bf16_s.
  void (*record)(Batch&, const GemmProduct&);
  bool takes_bf16_s = false;
  bool takes_a_copy = false;  // a shrink in a separate launch reads the bf16 copy of a, if any
};

// The best first; the last one computes any product.
std::span<const GemmImplementation> gemm_implementations();
const GemmImplementation& choose_gemm(Context& context, const GemmProduct& p);

// Whether one grouped launch can compute these problems: all of them use the kernel that supports
// groups, and it has passed its self-test for them.
bool can_group(Context& context, std::span<const GemmProduct> problems);

}  // namespace clora
