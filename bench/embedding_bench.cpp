// embedding/fused/TYPE/TxDxV: gathers T rows of the table.
#include "clora/ops/rowwise/embedding.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::bench {
namespace {

void embedding(OpBench& bench, DType type, std::int64_t T, std::int64_t D, std::int64_t V) {
  const auto table = test::random_weights(type, V, D, 1);
  std::vector<std::int32_t> ids;
  std::vector<double> want;
  for (std::int64_t t = 0; t < T; ++t) {
    ids.push_back(static_cast<std::int32_t>(t * 7919 % V));
    const auto row = table.values.begin() + ids.back() * D;
    want.insert(want.end(), row, row + D);
  }
  const auto elements = static_cast<std::size_t>(T * D);
  bench.cost = {static_cast<double>(elements),
                static_cast<double>(4 * elements + bytes_of(type, elements))};
  bench.tolerance = 1e-6;
  bench.record([&](BufferSet& set) {
    const Tensor y = set.output({T, D});
    record_embedding(set.batch(), y, set.input({T}, ids), set.keep(table.upload(bench.context())));
    set.expect(y, [&] { return want; });
  });
}

const bool kAdded = add_family([] {
  constexpr std::int64_t T = 2048, D = 576, V = 8192;
  for (const DType type : {DType::f32, DType::q4_1, DType::q8_0}) {
    add({.op = "embedding", .type = std::string(name_of(type)), .shape = {T, D, V}}, embedding,
        type, T, D, V);
  }
});

}  // namespace
}  // namespace clora::bench
