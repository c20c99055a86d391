#include "clora/ops/experts/combine.hpp"

#include <algorithm>

#include "ops/activations.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "ops/launch_grids.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kGroup = 64;
constexpr std::int64_t kVec = 4;
constexpr std::int64_t kMaxRowGroups = 1 << 15;  // GPUs support 65535 in the second dimension

void require_rows(std::string_view name, const Tensor& t, std::int64_t rows, std::int64_t width) {
  require_any_activation("combine", name, t, {rows, width});
}

Defines defines_of(const Tensor& x, const Tensor& y, std::int64_t vec, std::size_t group) {
  Defines defines;
  defines.set("X_TYPE", name_of(x.type())).set("Y_TYPE", name_of(y.type()));
  defines.set("VEC_SIZE", static_cast<std::uint32_t>(vec)).set("GROUP", group);
  return defines;
}

std::int64_t vec_of(std::int64_t width) { return width % kVec == 0 ? kVec : 1; }

}  // namespace

void record_combine(Batch& batch, const Tensor& y, const Tensor& x, const ExpertPlan& plan,
                    const Tensor& weights, const Tensor& residual) {
  require(!y.empty() && y.shape().rank() == 2, "combine: y must be a matrix [T, D]");
  const std::int64_t width = y.shape()[1], vec = vec_of(width);
  require_rows("y", y, plan.rows(), width);
  require_rows("x", x, plan.slot_count(), width);
  require(!overlap(y, x), "combine: y must not alias x");
  Defines defines = defines_of(x, y, vec, 1);
  if (weights.empty()) {
    defines.set("NO_WEIGHTS");
  } else {
    require_tensor("combine", "weights", weights, plan.slots.shape());
  }
  if (residual.empty()) {
    defines.set("NO_RESIDUAL");
  } else {
    require_tensor("combine", "residual", residual, y.shape(), y.type());
  }
  const auto rows = static_cast<std::size_t>(std::min(plan.rows(), kMaxRowGroups));
  const std::size_t group = reduction_group(batch.context().device(), kGroup);
  Launch launch{batch.context().kernel("combine.cl", "combine", defines),
                {{static_cast<std::size_t>(round_up(width / vec, group)), rows, 1}, {group, 1, 1}},
                combine_cost(plan, y, x),
                "combine/forward"};
  batch.launch(std::move(launch), y, x, or_else(residual, x), or_else(weights, x), plan.slots,
               u32(plan.rows()), u32(plan.experts_of_row()), u32(width / vec));
}

void record_combine_backward(Batch& batch, const CombineGradients& gradients, const Tensor& dy,
                             const Tensor& x, const ExpertPlan& plan, const Tensor& weights) {
  require(!dy.empty() && dy.shape().rank() == 2, "combine backward: dy must be a matrix [T, D]");
  const std::int64_t width = dy.shape()[1], vec = vec_of(width);
  require_rows("dy", dy, plan.rows(), width);
  require_rows("x", x, plan.slot_count(), width);
  require_tensor("combine backward", "dx", gradients.dx, x.shape(), x.type());
  require_tensor("combine backward", "dweights", gradients.dweights, plan.slots.shape());
  require_tensor("combine backward", "weights", weights, plan.slots.shape());
  require(!overlap(gradients.dx, dy) && !overlap(gradients.dx, x),
          "combine backward: dx must alias neither dy nor x");
  const Device& device = batch.context().device();
  const std::size_t group = device.kind == DeviceKind::cpu ? 1 : reduction_group(device, kGroup);
  Launch launch{
      batch.context().kernel("combine.cl", "combine_backward", defines_of(x, dy, vec, group)),
      groups_of(group, static_cast<std::size_t>(plan.slot_count())), combine_cost(plan, dy, x),
      "combine/backward"};
  batch.launch(std::move(launch), gradients.dx, gradients.dweights, dy, x, weights, plan.entries,
               u32(plan.experts_of_row()), u32(width / vec));
}

Cost combine_cost(const ExpertPlan& plan, const Tensor& y, const Tensor& x) {
  const auto read = static_cast<double>(plan.rows() * plan.experts_of_row() * y.shape()[1]);
  return {2 * read,
          read * static_cast<double>(bytes_of(x.type(), 1)) + 2 * static_cast<double>(y.bytes())};
}

}  // namespace clora
