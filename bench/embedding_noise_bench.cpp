// embedding_noise/fused/f32/TxD: x += scale * u, u uniform in [-1, 1), in place.
#include "clora/ops/rowwise/embedding_noise.hpp"

#include <algorithm>
#include <cmath>

#include "bench/support/op_bench.hpp"

namespace clora::bench {
namespace {

constexpr float kScale = 0.25F;

// 1 if an element exceeds the scale, or if the variance of many is wrong; otherwise 0. x grows with
// every run, by the same noise: it is compared with the noise of as many runs as explain its size.
double error_of(std::span<const float> x) {
  double squares = 0, most = 0;
  for (const float value : x) {
    squares += double{value} * double{value};
    most = std::max(most, std::abs(double{value}));
  }
  const double variance = squares / static_cast<double>(x.size()), runs = most / double{kScale};
  return std::abs(variance / (most * most) - 1 / 3.0) < 0.01 &&
                 std::abs(runs - std::round(runs)) < 0.01 * runs
             ? 0
             : 1;
}

void embedding_noise(OpBench& bench, const Shape& shape) {
  const std::vector<std::uint32_t> words{1, 2};
  bench.cost = embedding_noise_cost(shape);
  bench.record([&](BufferSet& set) {
    const Tensor counters =
        bench.context().upload<std::uint32_t>({2}, DType::u32, words, MemoryTag::scratch);
    const Tensor x = set.zeros(shape);
    const std::vector<float> scale(static_cast<std::size_t>(shape[0]), kScale);
    record_embedding_noise(set.batch(), x, set.input({shape[0]}, scale), counters);
    set.expect_error([&, x] { return error_of(bench.context().read<float>(x)); });
  });
}

const bool kAdded = add_family([] {
  const Shape shape{2048, 576};
  add({.op = "embedding_noise", .shape = shape}, embedding_noise, shape);
});

}  // namespace
}  // namespace clora::bench
