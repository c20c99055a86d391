#include "clora/ops/optimizers/sgd.hpp"

#include "ops/dispatch/cpu_kernel.hpp"
#include "ops/optimizers/flat_update.hpp"
#include "ops/optimizers/momentum_self_test.hpp"

namespace clora {
namespace {

constexpr double kFlops = 12;  // of a parameter

void test_sgd(SelfTest& test) {
  for (const Nesterov nesterov : {Nesterov::no, Nesterov::yes}) {
    record_sgd(test.batch(), momentum_self_test(test), nesterov, test.output({1}));
  }
}

}  // namespace

Cost sgd_cost(std::int64_t parameters) { return flat_update_cost(parameters, kFlops, 1); }

void record_sgd(Batch& batch, const MomentumTensors& tensors, Nesterov nesterov,
                const Tensor& grad_norm) {
  const bool cpu = takes_cpu_kernel(batch.context(), {"sgd", "sgd_cpu.cl", "sgd"}, test_sgd);
  record_flat_update(batch,
                     {.op = "sgd",
                      .kernel = "sgd_update",
                      .file = cpu ? "sgd_cpu.cl" : "sgd.cl",
                      .cpu = cpu,
                      .parameters = tensors.parameters,
                      .state = {{"momentum", tensors.momentum}},
                      .gradients = tensors.gradients,
                      .settings = tensors.settings,
                      .rates = tensors.rates,
                      .defines = {{"NESTEROV", nesterov == Nesterov::yes ? 1 : 0}},
                      .flops = kFlops},
                     grad_norm);
}

}  // namespace clora
