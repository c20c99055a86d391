// embedding/forward/TYPE/T x D of V: rows of the table gathered.
#include "ops/embedding.hpp"

#include <fmt/format.h>

#include "bench/support/op_bench.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora {
namespace {

constexpr std::int64_t kTokens = 2048;
constexpr std::int64_t kWidth = 576;
constexpr std::int64_t kVocabulary = 8192;

void embedding(benchmark::State& state, DType type) {
  const auto table = test::random_weights(type, kVocabulary, kWidth, 1);
  std::vector<std::int32_t> ids;
  std::vector<double> want;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    ids.push_back(static_cast<std::int32_t>(t * 7919 % kVocabulary));
    const auto row = table.values.begin() + ids.back() * kWidth;
    want.insert(want.end(), row, row + kWidth);
  }
  const Tensor y = bench::zeros({kTokens, kWidth});
  Batch batch(bench::context());
  record_embedding(batch, y, bench::upload({kTokens}, ids), table.upload(bench::context()));
  batch.submit().wait();
  const auto got = bench::context().read<float>(y);
  if (!bench::check(state, bench::largest_error(got, want), 1e-6)) return;
  const auto elements = static_cast<double>(kTokens * kWidth);
  const double stored = static_cast<double>(bytes_of(type, kTokens * kWidth));
  bench::time_best_replay(state, batch, 1, {elements, 4 * elements + stored});
}

const bool kRegistered = [] {
  for (const DType type : {DType::f32, DType::q4_1, DType::q8_0}) {
    const std::string name =
        fmt::format("embedding/fused/{}/{}x{}x{}", name_of(type), kTokens, kWidth, kVocabulary);
    benchmark::RegisterBenchmark(name.c_str(), embedding, type)->UseManualTime()->MinTime(0.1);
  }
  return true;
}();

}  // namespace
}  // namespace clora
