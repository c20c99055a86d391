// quant/dequantise/TYPE/N x K: a frozen matrix as floats.
#include "ops/quant.hpp"

#include <fmt/format.h>

#include "bench/support/op_bench.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora {
namespace {

void dequantise(benchmark::State& state, DType type) {
  const auto weights = test::random_weights(type, 1536, 768, 1);
  const Tensor w = weights.upload(bench::context());
  const Tensor y = bench::zeros({1536, 768});
  Batch batch(bench::context());
  record_dequantise(batch, y, w);
  batch.submit().wait();
  const auto got = bench::context().read<float>(y);
  if (!bench::check(state, bench::largest_error(got, weights.values), 1e-6)) return;
  bench::time_best_replay(state, batch, 1, dequantise_cost(w));
}

const bool kRegistered = [] {
  for (const DType type : test::kWeightTypes) {
    const std::string name = fmt::format("dequantise/fused/{}/1536x768", name_of(type));
    benchmark::RegisterBenchmark(name.c_str(), dequantise, type)->UseManualTime()->MinTime(0.1);
  }
  return true;
}();

}  // namespace
}  // namespace clora
