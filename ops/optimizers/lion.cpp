#include "clora/ops/optimizers/lion.hpp"

#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/optimizers/flat_update.hpp"
#include "ops/optimizers/momentum_self_test.hpp"

namespace clora {
namespace {

constexpr double kFlops = 12;  // of a parameter

void test_lion(SelfTest& test) {
  record_lion(test.batch(), momentum_self_test(test), test.output({1}));
}

}  // namespace

Cost lion_cost(std::int64_t parameters) { return flat_update_cost(parameters, kFlops, 1); }

void record_lion(Batch& batch, const MomentumTensors& tensors, const Tensor& grad_norm) {
  const bool cpu = takes_cpu_kernel(batch.context(), {"lion", "lion_cpu.cl", "lion"}, test_lion);
  record_flat_update(batch,
                     {.op = "lion",
                      .kernel = "lion_update",
                      .file = cpu ? "lion_cpu.cl" : "lion.cl",
                      .cpu = cpu,
                      .parameters = tensors.parameters,
                      .state = {{"momentum", tensors.momentum}},
                      .gradients = tensors.gradients,
                      .settings = tensors.settings,
                      .rates = tensors.rates,
                      .flops = kFlops},
                     grad_norm);
}

}  // namespace clora
