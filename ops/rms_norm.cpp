#include "ops/rms_norm.hpp"

#include "ops/launch_grids.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

void require_inputs(const Tensor& x, const Tensor& w) {
  require_tensor("rms_norm", "x", x, x.shape());
  require_tensor("rms_norm", "w", w, {x.shape().last()});
}

}  // namespace

Cost rms_norm_cost(const Shape& x) {
  const auto n = static_cast<double>(x.elements());
  return {4 * n, 4 * (2 * n + static_cast<double>(x.last()))};
}

Cost rms_norm_backward_cost(const Shape& x, bool has_residual) {
  const auto n = static_cast<double>(x.elements());
  return {11 * n, 4 * ((has_residual ? 4 : 3) * n + static_cast<double>(x.last()))};
}

void record_rms_norm(Batch& batch, const Tensor& y, const Tensor& x, const Tensor& w,
                     float epsilon) {
  require_inputs(x, w);
  require_tensor("rms_norm", "y", y, x.shape());
  Context& context = batch.context();
  const std::int64_t rows = x.shape().rows();
  const auto width = static_cast<std::int32_t>(x.shape().last());
  Launch launch{{}, {}, rms_norm_cost(x.shape()), "rms_norm/forward"};
  if (context.variant() == Variant::cpu) {
    launch.kernel = context.kernel("rms_norm_cpu.cl", "rms_norm_forward");
    launch.grid = cpu_rows_grid(context.device(), rows);
    batch.launch(std::move(launch), y, x, w, rows, width, epsilon);
  } else {
    launch.kernel = context.kernel("rms_norm.cl", "rms_norm_forward");
    const RowGroups groups = portable_rows_grid(context.device(), rows, width);
    launch.grid = groups.grid;
    batch.launch(std::move(launch), y, x, w, width, epsilon, groups.scratch);
  }
}

void record_rms_norm_backward(Batch& batch, const Tensor& dx, const Tensor& dy, const Tensor& x,
                              const Tensor& w, const Tensor& residual, float epsilon) {
  require_inputs(x, w);
  require_tensor("rms_norm", "dx", dx, x.shape());
  require_tensor("rms_norm", "dy", dy, x.shape());
  const bool has_residual = !residual.empty();
  if (has_residual) require_tensor("rms_norm", "residual", residual, x.shape());
  const Tensor& added = has_residual ? residual : dx;  // a kernel argument must not be null
  const std::int32_t adds = has_residual ? 1 : 0;
  Context& context = batch.context();
  const std::int64_t rows = x.shape().rows();
  const auto width = static_cast<std::int32_t>(x.shape().last());
  Launch launch{{}, {}, rms_norm_backward_cost(x.shape(), has_residual), "rms_norm/backward"};
  if (context.variant() == Variant::cpu) {
    launch.kernel = context.kernel("rms_norm_cpu.cl", "rms_norm_backward");
    launch.grid = cpu_rows_grid(context.device(), rows);
    batch.launch(std::move(launch), dx, dy, x, w, added, adds, rows, width, epsilon);
  } else {
    launch.kernel = context.kernel("rms_norm.cl", "rms_norm_backward");
    const RowGroups groups = portable_rows_grid(context.device(), rows, width);
    launch.grid = groups.grid;
    batch.launch(std::move(launch), dx, dy, x, w, added, adds, width, epsilon, groups.scratch);
  }
}

}  // namespace clora
