// dropout/fused/f32/TxD: y = dropout(x); dropout_add: y += dropout(x).
#include "clora/ops/rowwise/dropout.hpp"

#include <cmath>

#include "bench/support/op_bench.hpp"

namespace clora::bench {
namespace {

constexpr float kProbability = 0.25F;

// 1 if an element is neither zero nor kept and scaled, or if the fraction of zeros is wrong;
// otherwise 0.
double error_of(std::span<const float> y, std::span<const float> x) {
  double zeros = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    zeros += y[i] == 0 ? 1 : 0;
    if (y[i] != 0 && std::abs(y[i] * (1 - kProbability) - x[i]) > 1e-6F) return 1;
  }
  return std::abs(zeros / static_cast<double>(y.size()) - double{kProbability}) < 0.01 ? 0 : 1;
}

void dropout(OpBench& bench, const Shape& shape, bool accumulate) {
  const std::vector<std::uint32_t> words{1, 2};
  const Operand x(shape, 1);
  const auto elements = static_cast<double>(shape.elements());
  bench.cost = {elements, (accumulate ? 12 : 8) * elements};
  bench.record([&](BufferSet& set) {
    const Tensor counters =
        bench.context().upload<std::uint32_t>({2}, DType::u32, words, MemoryTag::scratch);
    const Tensor y = set.zeros(shape);
    record_dropout(set.batch(), y, set.input(x), counters, {kProbability, 3}, accumulate);
    set.expect_error([&, y] { return error_of(bench.context().read<float>(y), x.floats); });
  });
}

const bool kAdded = add_family([] {
  const Shape shape{2048, 576};
  add({.op = "dropout", .shape = shape}, dropout, shape, false);
  add({.op = "dropout_add", .shape = shape}, dropout, shape, true);
});

}  // namespace
}  // namespace clora::bench
