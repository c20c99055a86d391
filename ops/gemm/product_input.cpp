#include "clora/ops/gemm/product_input.hpp"

#include "clora/ops/rowwise/rms_norm.hpp"

namespace clora {

Tensor record_input(Batch& batch, const ProductInput& input) {
  if (const auto* norm = std::get_if<RmsNormOf>(&input.from)) {
    record_rms_norm(batch, input.x, norm->of, norm->w, norm->epsilon);
  } else if (const auto* gated = std::get_if<SwigluOf>(&input.from)) {
    record_swiglu(batch, input.x, gated->gate, gated->up, {}, gated->function);
  }
  return input.x;
}

}  // namespace clora
