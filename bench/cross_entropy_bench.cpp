// cross_entropy/FORM/f32/SHAPE: the loss over one chunk of logits, and the head of SmolLM2-135M
// joined with it over 4 x 512 tokens.
#include "ops/cross_entropy.hpp"

#include "bench/support/op_bench.hpp"
#include "ops/gemm.hpp"
#include "tests/reference/cross_entropy_reference.hpp"

namespace clora {
namespace {

constexpr std::int64_t kVocabulary = 49152, kWidth = 576;

std::vector<std::int32_t> targets_of(std::int64_t rows) {
  std::vector<std::int32_t> targets(static_cast<std::size_t>(rows));
  for (std::size_t t = 0; t < targets.size(); ++t) {
    targets[t] = static_cast<std::int32_t>(t * 7919 % kVocabulary);
  }
  return targets;
}

Tensor empty(Shape shape) {
  return bench::context().allocate(shape, DType::f32, MemoryTag::scratch);
}

void gradient(benchmark::State& state) {
  constexpr std::int64_t rows = 512;
  const auto values = bench::random_values(rows * kVocabulary, 1);
  const Tensor logits = bench::upload({rows, kVocabulary}, values), loss = empty({rows});
  const Tensor dlogits = empty({rows, kVocabulary});
  const auto target = targets_of(rows);
  const Tensor targets = bench::upload({rows}, target);
  const Tensor weight = bench::upload({1}, std::vector{0.5F});
  const auto record = [&](Batch& batch) {
    record_cross_entropy(batch, loss, dlogits, logits, targets, weight);
  };
  Batch once(bench::context());
  record(once);
  once.submit().wait();
  const auto want = reference::cross_entropy(bench::to_double(values), target, 0.5);
  const double error =
      std::max(bench::largest_error(bench::context().read<float>(loss), want.loss),
               bench::largest_error(bench::context().read<float>(dlogits), want.dlogits));
  if (!bench::check(state, error, 2e-6)) return;
  bench::time_replays(state, cross_entropy_cost(logits.shape()), 1, record);
}
BENCHMARK(gradient)
    ->Name("cross_entropy_backward/fused/f32/512x49152")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// Loss and dx of row t in double.
std::pair<double, std::vector<double>> reference_row(std::int64_t t, std::span<const float> x,
                                                     std::span<const float> head,
                                                     std::int32_t target) {
  const auto row = x.subspan(static_cast<std::size_t>(t * kWidth), kWidth);
  std::vector<double> logits(kVocabulary), dx(kWidth);
  const auto at = [&](std::size_t v, std::size_t d) { return double{head[v * kWidth + d]}; };
  for (std::size_t v = 0; v < kVocabulary; ++v) {
    for (std::size_t d = 0; d < kWidth; ++d) logits[v] += row[d] * at(v, d);
  }
  const auto result = reference::cross_entropy(logits, std::vector{target}, 1.0);
  for (std::size_t v = 0; v < kVocabulary; ++v) {
    for (std::size_t d = 0; d < kWidth; ++d) dx[d] += result.dlogits[v] * at(v, d);
  }
  return {result.loss[0], dx};
}

void head_loss(benchmark::State& state) {
  const bool with_gradient = state.range(1) != 0;
  const std::int64_t rows = state.range(0);
  auto x = bench::random_values(static_cast<std::size_t>(rows * kWidth), 1);
  auto head = bench::random_values(kVocabulary * kWidth, 2);
  for (float& value : head) value *= 0.25F;
  const auto target = targets_of(rows);
  const std::int64_t chunk = state.range(2);
  const HeadLossInputs inputs{.x = bench::upload({rows, kWidth}, x),
                              .head = bench::upload({kVocabulary, kWidth}, head),
                              .targets = bench::upload({rows}, target),
                              .weight = bench::upload({1}, std::vector{1.0F}),
                              .rows_per_chunk = chunk};
  const Tensor loss = empty({rows});
  const Tensor dx = with_gradient ? empty({rows, kWidth}) : Tensor();
  const auto record = [&](Batch& batch) { record_head_loss(batch, loss, dx, inputs); };
  Batch once(bench::context());
  record(once);
  once.submit().wait();
  for (const std::int64_t t : {std::int64_t{0}, rows - 1}) {  // the whole would take minutes
    const auto [want_loss, want_dx] =
        reference_row(t, x, head, target[static_cast<std::size_t>(t)]);
    const auto got = bench::context().read<float>(loss)[static_cast<std::size_t>(t)];
    if (!bench::check(state, std::abs(got - want_loss) / want_loss, 2e-6)) return;
    if (!with_gradient) continue;
    const auto all = bench::context().read<float>(dx);
    const auto row = std::span(all).subspan(static_cast<std::size_t>(t * kWidth), kWidth);
    if (!bench::check(state, bench::largest_error(row, want_dx), 1e-5)) return;
  }
  Cost cost = gemm_cost(rows, inputs.head);
  if (with_gradient) cost = {2 * cost.flops, 2 * cost.bytes};
  bench::time_replays(state, cost, 1, record);
}
BENCHMARK(head_loss)
    ->Name("head_loss/fused/f32/49152x576")
    ->ArgNames({"rows", "gradient", "chunk"})
    ->Args({2048, 1, 0})
    ->Args({2048, 0, 0})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace clora
