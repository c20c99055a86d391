#include "clora/ops/adamw.hpp"

#include <array>
#include <bit>

#include "ops/adamw_norm.hpp"
#include "ops/dispatch/cpu_kernel.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

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
  const std::int64_t n = require_adamw(op, p, tensors.gradients, tensors.settings, grad_norm);
  require_tensor(op, "first_moment", tensors.first_moment, p.shape());
  require_tensor(op, "second_moment", tensors.second_moment, p.shape());

  const bool cpu =
      takes_cpu_kernel(batch.context(), {"adamw", "adamw_cpu.cl", "adamw"}, test_adamw);
  const AdamwSpec spec = adamw_spec(batch.context(), cpu ? "adamw_cpu.cl" : "adamw.cl", cpu, n);
  const Tensor partials = record_square_sums(batch, spec, tensors.gradients, "adamw/square_sums");
  const auto count = static_cast<double>(n);
  batch.launch({batch.context().kernel(spec.file, "adamw_update", spec.defines),
                spec.grid,
                {14 * count, 28 * count},
                "adamw/update"},
               p, tensors.first_moment, tensors.second_moment, grad_norm, tensors.gradients,
               tensors.settings, partials, i32(spec.groups), n);
}

}  // namespace clora
