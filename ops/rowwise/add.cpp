#include "clora/ops/rowwise/add.hpp"

#include <cmath>

#include "ops/activations.hpp"
#include "ops/dispatch/variant_launch.hpp"
#include "runtime/fail.hpp"

namespace clora {

void record_add(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& t, float factor) {
  require_any_activation("add", "t", t, t.shape());
  require_any_activation("add", "y", y, t.shape());
  require(std::isfinite(factor), "add: the factor must be finite, got {}", factor);
  require_apart_or_alike("add", "y", y, t);
  double bytes = element_bytes(t.type()) + element_bytes(y.type());
  VariantKernel kernel{
      .stem = "add", .function = "add", .types = {{"T_TYPE", t.type()}, {"Y_TYPE", y.type()}}};
  if (x.empty()) {
    kernel.flags.push_back("NO_X");
  } else {
    require_any_activation("add", "x", x, t.shape());
    require_apart_or_alike("add", "y", y, x);
    kernel.types.push_back({"X_TYPE", x.type()});
    bytes += element_bytes(x.type());
  }
  const std::int64_t n = t.elements();
  Launch launch = flat_launch(batch.context(), kernel, n, n, {});
  launch.cost = {2.0 * static_cast<double>(n), bytes * static_cast<double>(n)};
  launch.label = "add";
  std::vector<Argument> arguments{y};
  if (!x.empty()) arguments.emplace_back(x);
  arguments.insert(arguments.end(), {t, factor, n});
  batch.record(std::move(launch), std::move(arguments));
}

}  // namespace clora
