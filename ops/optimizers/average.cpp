#include "clora/ops/optimizers/average.hpp"

#include "ops/launch_grids.hpp"
#include "ops/optimizers/flat_update.hpp"
#include "runtime/fail.hpp"

namespace clora {

Cost average_cost(std::int64_t parameters) {
  const auto n = static_cast<double>(parameters);
  return {3 * n, 12 * n};
}

void record_average(Batch& batch, const Tensor& average, const Tensor& parameters, double decay) {
  require(parameters.shape().rank() == 1 && parameters.elements() > 0,
          "average: parameters must be f32 [n] with n at least 1, got {}", parameters.text());
  require_tensor("average", "parameters", parameters, parameters.shape());
  require_tensor("average", "average", average, parameters.shape());
  require(decay >= 0 && decay < 1, "average: the decay must be in [0, 1), got {}", decay);
  const std::int64_t n = parameters.elements();
  const FlatLaunch launch = flat_update_launch(batch.context(), "average.cl", false, n);
  batch.launch({batch.context().kernel(launch.file, "average_update", launch.defines), launch.grid,
                average_cost(n), "average/update"},
               average, parameters, static_cast<float>(1 - decay), n);
}

}  // namespace clora
