#include "ops/optimizers/flat_update.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "clora/ops/loss/cross_entropy.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr double kGradientBytes = 4, kSquareFlops = 2;

std::string label_of(std::string_view op, std::string_view launch) {
  return std::string(op) + '/' + std::string(launch);
}

// Parameters and state are read and written, gradients read.
Cost update_cost(std::int64_t parameters, double flops, std::size_t states) {
  const auto n = static_cast<double>(parameters);
  return {flops * n, (kGradientBytes + 8 + 8 * static_cast<double>(states)) * n};
}

void require_rates(std::string_view op, const ParameterRates& rates, std::int64_t n) {
  if (rates.empty()) return;
  require_tensor(op, "rates.block_groups", rates.block_groups, {rate_blocks(n)}, DType::u8);
  const Tensor& groups = rates.group_rates;
  require(groups.shape().rank() == 2 && groups.shape()[0] >= 1,
          "{}: rates.group_rates must be f32 [groups, 2] with a group at least, got {}", op,
          groups.text());
  require_tensor(op, "rates.group_rates", groups, {groups.shape()[0], 2});
}

// The sums of squares are in the same program as the update: one is built for both.
void set_options(FlatLaunch& launch, const FlatUpdate& update) {
  for (const auto& [name, value] : update.defines) launch.defines.set(name, value);
  launch.defines.set("GROUPED", update.rates.empty() ? 0 : 1);
}

}  // namespace

FlatLaunch flat_update_launch(const Context& context, std::string_view file, bool cpu,
                              std::int64_t n) {
  if (cpu) {
    const std::size_t groups = cpu_groups(context.device(), divide_up(n, 16));
    return {file, {}, single_item_groups(groups), static_cast<std::int64_t>(groups)};
  }
  constexpr std::size_t kMaxGroups = 1024;  // fills a large GPU; each repeats the last sum
  const std::size_t group = reduction_group(context.device());
  const auto items = static_cast<std::int64_t>(4 * group);  // elements per group at once
  const std::size_t groups = std::min(kMaxGroups, static_cast<std::size_t>(divide_up(n, items)));
  Defines defines;
  defines.set("GROUP", group);
  return {file, defines, groups_of(group, groups), static_cast<std::int64_t>(groups)};
}

Tensor record_square_sums(Batch& batch, const FlatLaunch& launch, const Tensor& gradients,
                          std::string_view op) {
  const std::int64_t n = gradients.elements();
  const auto count = static_cast<double>(n);
  const Tensor partials = batch.temporary({launch.groups}, DType::f32, "sums of squares");
  batch.launch({batch.context().kernel(launch.file, "gradient_square_sums", launch.defines),
                launch.grid,
                {kSquareFlops * count, kGradientBytes * count},
                label_of(op, "square_sums")},
               partials, gradients, n);
  return partials;
}

// By the portable program of sgd, which has this kernel as all optimizers' programs do.
void record_square_sum(Batch& batch, const Tensor& sum, const Tensor& gradients) {
  require(!gradients.empty() && gradients.shape().rank() == 1 && gradients.elements() > 0,
          "square sum: gradients must be f32 [n] with n at least 1, got {}", gradients.text());
  require_tensor("square sum", "gradients", gradients, gradients.shape());
  FlatLaunch launch = flat_update_launch(batch.context(), "sgd.cl", false, gradients.elements());
  launch.defines.set("GROUPED", 0).set("NESTEROV", 0);
  record_sum(batch, sum, record_square_sums(batch, launch, gradients, "gradients"), false);
}

std::int64_t require_update(std::string_view op, const Tensor& parameters, const Tensor& gradients,
                            const Tensor& settings, const ParameterRates& rates,
                            const Tensor& grad_norm) {
  require(!parameters.empty() && parameters.shape().rank() == 1 && parameters.elements() > 0,
          "{}: parameters must be f32 [n] with n at least 1, got {}", op, parameters.text());
  require_tensor(op, "parameters", parameters, parameters.shape());
  require_tensor(op, "gradients", gradients, parameters.shape());
  require_tensor(op, "settings", settings, {8});
  require_tensor(op, "grad_norm", grad_norm, {1});
  require_rates(op, rates, parameters.elements());
  return parameters.elements();
}

void record_flat_update(Batch& batch, const FlatUpdate& update, const Tensor& grad_norm) {
  const Tensor& p = update.parameters;
  const std::int64_t n =
      require_update(update.op, p, update.gradients, update.settings, update.rates, grad_norm);
  for (const auto& [name, tensor] : update.state) {
    require_tensor(update.op, name, tensor, p.shape());
  }
  FlatLaunch launch = flat_update_launch(batch.context(), update.file, update.cpu, n);
  set_options(launch, update);
  const Tensor partials = update.square_sums.empty()
                              ? record_square_sums(batch, launch, update.gradients, update.op)
                              : update.square_sums;
  std::vector<Argument> arguments{p};
  for (const auto& [name, tensor] : update.state) arguments.emplace_back(tensor);
  for (const Tensor& tensor : {grad_norm, update.gradients, update.settings, partials}) {
    arguments.emplace_back(tensor);
  }
  arguments.emplace_back(i32(partials.elements()));
  arguments.emplace_back(n);
  if (!update.rates.empty()) {
    arguments.emplace_back(update.rates.block_groups);
    arguments.emplace_back(update.rates.group_rates);
  }
  batch.record({batch.context().kernel(launch.file, update.kernel, launch.defines), launch.grid,
                update_cost(n, update.flops, update.state.size()), label_of(update.op, "update")},
               std::move(arguments));
}

Cost flat_update_cost(std::int64_t parameters, double flops, std::size_t states) {
  const auto n = static_cast<double>(parameters);
  const Cost update = update_cost(parameters, flops, states);
  return {update.flops + kSquareFlops * n, update.bytes + kGradientBytes * n};
}

}  // namespace clora
