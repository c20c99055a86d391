// sample/FORM/f32/V: one token of a vocabulary, by form of sampling; 20 tokens a batch.
#include "ops/sample.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/sample_reference.hpp"

namespace clora {
namespace {

void sample(benchmark::State& state, SampleSettings settings) {
  const std::int64_t vocabulary = state.range(0);
  auto values = bench::random_values(static_cast<std::size_t>(vocabulary), 1);
  for (float& x : values) x *= 10;
  Context& context = bench::context();
  const Tensor logits = bench::upload({vocabulary}, values);
  const Tensor token = bench::upload({1}, std::vector<std::int32_t>{-1});
  const std::vector<std::uint8_t> unseen(static_cast<std::size_t>(vocabulary));
  const Tensor seen =
      context.upload<std::uint8_t>({vocabulary}, DType::u8, unseen, MemoryTag::scratch);
  const Tensor device_settings = context.allocate({8}, DType::u32, MemoryTag::scratch);
  context.write(device_settings, std::as_bytes(std::span(&settings, 1)));
  const auto record = [&](Batch& batch) {
    record_sample(batch, token, seen, device_settings, logits);
  };
  Batch once(context);
  record(once);
  once.submit().wait();
  const auto want = reference::sample(values, unseen, settings);
  const bool right = want.margin < 1e-5 || context.read<std::int32_t>(token)[0] == want.token;
  if (!bench::check(state, right ? 0 : 1)) return;
  const auto elements = static_cast<double>(vocabulary);
  bench::time_replays(state, {elements, 4 * elements}, 20, record);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Arg(32000)->Arg(49152)->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK_CAPTURE(sample, greedy, {})->Name("sample_greedy/fused/f32")->Apply(sizes);
BENCHMARK_CAPTURE(sample, penalty, {.repetition_penalty = 1.1F})
    ->Name("sample_penalty/fused/f32")
    ->Apply(sizes);
BENCHMARK_CAPTURE(sample, temperature, {.temperature = 1})
    ->Name("sample_temperature/fused/f32")
    ->Apply(sizes);
BENCHMARK_CAPTURE(sample, top_k, {.temperature = 1, .top_k = 50})
    ->Name("sample_top_k_50/fused/f32")
    ->Apply(sizes);
BENCHMARK_CAPTURE(sample, top_p, {.temperature = 1, .top_p = 0.9F})
    ->Name("sample_top_p_0.9/fused/f32")
    ->Apply(sizes);

}  // namespace
}  // namespace clora
