#include "clora/ops/adamw.hpp"

#include <array>
#include <bit>

#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/launch_grids.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// The file, options and both grids for n parameters.
struct AdamwSpec {
  std::string_view file;
  Defines defines;
  Grid square_sums;
  Grid update;
  std::int64_t partials;  // groups of the first launch

  AdamwSpec(const Context& context, bool cpu, std::int64_t n) {
    if (cpu) {
      const std::size_t groups = cpu_groups(context.device(), divide_up(n, 16));
      file = "adamw_cpu.cl";
      square_sums = update = single_item_groups(groups);
      partials = static_cast<std::int64_t>(groups);
    } else {
      constexpr std::size_t kMaxGroups = 1024;  // fills a large GPU; each repeats the last sum
      const std::size_t group = reduction_group(context.device());
      const auto items = static_cast<std::int64_t>(4 * group);  // elements per group at once
      const std::size_t groups =
          std::min(kMaxGroups, static_cast<std::size_t>(divide_up(n, items)));
      file = "adamw.cl";
      defines.set("GROUP", group);
      partials = static_cast<std::int64_t>(groups);
      square_sums = update = groups_of(group, groups);
    }
  }
};

void test_adamw(SelfTest& test) {
  const AdamwSettings settings{.learning_rate = 0.02F, .weight_decay = 0.1F, .clip_norm = 1};
  const Shape shape{150};
  const Tensor second_moment = test.input(shape);
  test.batch().fill_zero(second_moment);  // it is a mean of squares: never below 0
  const auto words = std::bit_cast<std::array<float, 8>>(settings);
  const AdamwTensors tensors{.parameters = test.changed(test.input(shape)),
                             .first_moment = test.changed(test.input(shape)),
                             .second_moment = test.changed(second_moment),
                             .gradients = test.input(shape),
                             .settings = test.input({8}, words)};
  record_adamw(test.batch(), tensors, test.output({1}));
}

}  // namespace

Cost adamw_cost(std::int64_t parameters) {
  const auto n = static_cast<double>(parameters);
  return {16 * n, (4 + 28) * n};
}

void record_adamw(Batch& batch, const AdamwTensors& tensors, const Tensor& grad_norm) {
  constexpr std::string_view op = "adamw";
  const Tensor& p = tensors.parameters;
  require(!p.empty() && p.shape().rank() == 1 && p.elements() > 0,
          "{}: parameters must be f32 [n] with n at least 1, got {}", op, p.text());
  const Shape shape = p.shape();
  require_tensor(op, "parameters", p, shape);
  require_tensor(op, "first_moment", tensors.first_moment, shape);
  require_tensor(op, "second_moment", tensors.second_moment, shape);
  require_tensor(op, "gradients", tensors.gradients, shape);
  require_tensor(op, "settings", tensors.settings, {8});
  require_tensor(op, "grad_norm", grad_norm, {1});

  const std::int64_t n = p.elements();
  const auto count = static_cast<double>(n);
  const bool cpu =
      takes_cpu_kernel(batch.context(), {"adamw", "adamw_cpu.cl", "adamw"}, test_adamw);
  const AdamwSpec spec(batch.context(), cpu, n);
  const auto kernel = [&](std::string_view function) {
    return batch.context().kernel(spec.file, function, spec.defines);
  };
  const Tensor partials = batch.temporary({spec.partials}, DType::f32, "adamw partials");
  batch.launch(
      {kernel("adamw_square_sums"), spec.square_sums, {2 * count, 4 * count}, "adamw/square_sums"},
      partials, tensors.gradients, n);
  batch.launch({kernel("adamw_update"), spec.update, {14 * count, 28 * count}, "adamw/update"}, p,
               tensors.first_moment, tensors.second_moment, grad_norm, tensors.gradients,
               tensors.settings, partials, i32(spec.partials), n);
}

}  // namespace clora
