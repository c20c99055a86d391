#include "clora/ops/rowwise/cast.hpp"

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"

namespace clora {

void record_cast(Batch& batch, const Tensor& y, const Tensor& x) {
  require_any_activation("cast", "x", x, x.shape());
  require_any_activation("cast", "y", y, x.shape());
  require(!overlap(y, x), "cast: y, {}, must not overlap x, {}", y.text(), x.text());
  const std::int64_t n = x.elements();
  const VariantKernel kernel{
      .stem = "cast", .function = "cast", .types = {{"X_TYPE", x.type()}, {"Y_TYPE", y.type()}}};
  const std::int64_t run = x.shape().last();
  Launch launch = flat_launch(batch.context(), kernel, n, run, {});
  launch.cost = cast_cost(x.shape(), x.type(), y.type());
  launch.label = "cast";
  batch.launch(std::move(launch), y, x, n);
}

Cost cast_cost(const Shape& x, DType x_type, DType y_type) {
  return {0, (element_bytes(x_type) + element_bytes(y_type)) * static_cast<double>(x.elements())};
}

}  // namespace clora
