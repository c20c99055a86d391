#include "ops/lora_linear/weight_gradient.hpp"

#include <algorithm>

#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/rowwise/columns.hpp"

namespace clora {

// By ranges of outputs, since the sums of a range may be computed in several parts.
void record_weight_gradient(Batch& batch, const Tensor& dw, const Tensor& dy, const Tensor& x) {
  constexpr std::int64_t kOutputs = 4096;
  const std::int64_t rows = dy.shape()[0], outputs = dy.shape()[1];
  if (outputs <= kOutputs) return record_lora_gradient(batch, dw, dy, x, 1);
  for (std::int64_t begin = 0; begin < outputs; begin += kOutputs) {
    const std::int64_t count = std::min(kOutputs, outputs - begin);
    const Tensor range = batch.temporary({rows, count}, dy.type(), "range of dy");
    record_take_columns(batch, range, dy, begin);
    record_lora_gradient(batch, dw.rows(begin, count), range, x, 1);
  }
}

LoraGradientProduct bias_gradient(const Tensor& dbias, const Tensor& dy, const Tensor& ones) {
  return {.out = dbias.reshape({1, dbias.elements()}), .s = ones, .x = dy};
}

}  // namespace clora
