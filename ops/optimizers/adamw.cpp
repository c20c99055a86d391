#include "clora/ops/optimizers/adamw.hpp"

#include <array>
#include <bit>

#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/optimizers/flat_update.hpp"

namespace clora {
namespace {

constexpr double kFlops = 14;  // of a parameter

void test_adamw(SelfTest& test) {
  const UpdateSettings settings{.learning_rate = 0.02F, .weight_decay = 0.1F, .clip_norm = 1};
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

Cost adamw_cost(std::int64_t parameters) { return flat_update_cost(parameters, kFlops, 2); }

void record_adamw(Batch& batch, const AdamwTensors& tensors, const Tensor& grad_norm) {
  const bool cpu =
      takes_cpu_kernel(batch.context(), {"adamw", "adamw_cpu.cl", "adamw"}, test_adamw);
  record_flat_update(
      batch,
      {.op = "adamw",
       .kernel = "adamw_update",
       .file = cpu ? "adamw_cpu.cl" : "adamw.cl",
       .cpu = cpu,
       .parameters = tensors.parameters,
       .state = {{"first_moment", tensors.first_moment}, {"second_moment", tensors.second_moment}},
       .gradients = tensors.gradients,
       .settings = tensors.settings,
       .rates = tensors.rates,
       .square_sums = tensors.square_sums,
       .flops = kFlops},
      grad_norm);
}

}  // namespace clora
