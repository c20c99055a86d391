// adamw/step/f32/2.4M: one step over the parameters of rank 8 on all linears of SmolLM2-135M.
#include "ops/adamw.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/adamw_reference.hpp"

namespace clora {
namespace {

void adamw_step(benchmark::State& state) {
  constexpr std::int64_t n = 2442240;
  const auto values = bench::random_values(n, 1);
  const auto slopes = bench::random_values(n, 2);
  const std::vector<float> zeros(n);
  AdamwSettings settings{.learning_rate = 1e-3F, .clip_norm = 1};
  settings.bias_correction1 = static_cast<float>(1 - double{settings.beta1});
  settings.bias_correction2 = static_cast<float>(1 - double{settings.beta2});
  Context& context = bench::context();
  const AdamwTensors tensors{.parameters = bench::upload({n}, values),
                             .first_moment = bench::upload({n}, zeros),
                             .second_moment = bench::upload({n}, zeros),
                             .gradients = bench::upload({n}, slopes),
                             .settings = context.allocate({8}, DType::f32, MemoryTag::scratch)};
  context.write(tensors.settings, std::as_bytes(std::span(&settings, 1)));
  const Tensor norm = context.allocate({1}, DType::f32, MemoryTag::scratch);

  Batch once(context);
  record_adamw(once, tensors, norm);
  once.submit().wait();
  reference::AdamwState want{bench::to_double(values), bench::to_double(zeros),
                             bench::to_double(zeros)};
  const std::vector want_norm{reference::adamw(want, bench::to_double(slopes), settings)};
  const double error =
      std::max(bench::largest_error(context.read<float>(tensors.parameters), want.parameters),
               bench::largest_error(context.read<float>(norm), want_norm));
  if (!bench::check(state, error, 1e-6)) return;
  bench::time_replays(state, adamw_cost(n), 4,
                      [&](Batch& batch) { record_adamw(batch, tensors, norm); });
}
BENCHMARK(adamw_step)
    ->Name("adamw/fused/f32/2442240")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace clora
