// dropout/FORM/f32/T x D: elements dropped, and dropped and added.
#include "ops/dropout.hpp"

#include <fmt/format.h>

#include "bench/support/op_bench.hpp"

namespace clora {
namespace {

constexpr std::int64_t kElements = 2048 * 576;
constexpr float kProbability = 0.25F;

// Elements that are neither kept and scaled nor zero, or a share of zeros that is off: 1.
double error_of(std::span<const float> y, std::span<const float> x) {
  double zeros = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    zeros += y[i] == 0 ? 1 : 0;
    if (y[i] != 0 && std::abs(y[i] * (1 - kProbability) - x[i]) > 1e-6F) return 1;
  }
  return std::abs(zeros / static_cast<double>(y.size()) - double{kProbability}) < 0.01 ? 0 : 1;
}

void dropout(benchmark::State& state, bool accumulate) {
  Context& context = bench::context();
  const std::vector<std::uint32_t> words{1, 2};
  const Tensor counters = context.upload<std::uint32_t>({2}, DType::u32, words, MemoryTag::scratch);
  const auto x = bench::random_values(kElements, 1);
  const Tensor y = bench::zeros({kElements});
  Batch batch(context);
  record_dropout(batch, y, bench::upload({kElements}, x), counters, {kProbability, 3}, accumulate);
  batch.submit().wait();
  if (!bench::check(state, error_of(context.read<float>(y), x))) return;
  bench::time_best_replay(state, batch, 1, {kElements, (accumulate ? 12.0 : 8.0) * kElements});
}

const bool kRegistered = [] {
  for (const bool accumulate : {false, true}) {
    const std::string name = fmt::format("dropout{}/fused/f32/2048x576", accumulate ? "_add" : "");
    benchmark::RegisterBenchmark(name.c_str(), dropout, accumulate)->UseManualTime()->MinTime(0.1);
  }
  return true;
}();

}  // namespace
}  // namespace clora
