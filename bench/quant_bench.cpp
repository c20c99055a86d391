// dequantise/fused/TYPE/NxK: converts a frozen matrix to floats.
#include "clora/ops/quant/quant.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::bench {
namespace {

void dequantise(OpBench& bench, DType type, const Shape& shape) {
  const auto weights = test::random_weights(type, shape[0], shape[1], 1);
  bench.tolerance = 1e-6;
  bench.record([&](BufferSet& set) {
    const Tensor w = set.keep(weights.upload(bench.context()));
    const Tensor y = set.output(shape);
    bench.cost = dequantise_cost(w);
    record_dequantise(set.batch(), y, w);
    set.expect(y, [&] { return weights.values; });
  });
}

const bool kAdded = add_family([] {
  const Shape shape{1536, 768};
  for (const DType type : test::kWeightTypes) {
    add({.op = "dequantise", .type = std::string(name_of(type)), .shape = shape}, dequantise, type,
        shape);
  }
});

}  // namespace
}  // namespace clora::bench
