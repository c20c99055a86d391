#include "clora/ops/rowwise/soft_cap.hpp"

#include <cmath>

#include "ops/dispatch/variant_launch.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void test_soft_cap(SelfTest& test) {
  record_soft_cap(test.batch(), test.changed(test.input({173}, 8)), 3);
}

}  // namespace

Cost soft_cap_cost(const Shape& x) {
  const auto n = static_cast<double>(x.elements());
  return {4 * n, 8 * n};
}

void record_soft_cap(Batch& batch, const Tensor& x, float cap) {
  require(!x.empty() && x.elements() > 0, "soft_cap: x must be f32 with at least one element");
  require_tensor("soft_cap", "x", x, x.shape());
  require(std::isfinite(cap) && cap > 0, "soft_cap: the cap must be above 0, got {}", cap);
  const std::int64_t n = x.elements();
  const VariantKernel kernel = kernel_of("soft_cap", "soft_cap", {{"X_TYPE", DType::f32}});
  Launch launch = flat_launch(batch.context(), kernel, n, n, test_soft_cap);
  launch.cost = soft_cap_cost(x.shape());
  launch.label = "soft_cap";
  batch.launch(std::move(launch), x, cap, n);
}

}  // namespace clora
