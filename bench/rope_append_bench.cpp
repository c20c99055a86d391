// rope_append/fused/f32/TxHxE/warm: a decoding step of T sequences of SmolLM2-135M: its queries and
// keys are rotated, its keys and values appended to a cache. Replays rotate the same tensors again.
#include "clora/ops/attention/rope_append.hpp"

#include <algorithm>
#include <numeric>

#include "bench/support/op_bench.hpp"

namespace clora::bench {
namespace {

constexpr std::int64_t kHeads = 9, kKeyHeads = 3, kWidth = 64, kCacheRows = 1024;

void rope_append(OpBench& bench, std::int64_t T) {
  const Operand q({T, kHeads, kWidth}, 1), k({T, kKeyHeads, kWidth}, 2), v(k.shape, 3);
  const Operand cache({kCacheRows, kKeyHeads, kWidth}, 4);
  // Cosines of 0 and sines of 1, so that values neither grow nor vanish.
  Operand table({T, kWidth / 2, 2}, 5);
  for (std::size_t i = 0; i < table.floats.size(); ++i) table.floats[i] = i % 2 == 0 ? 0 : 1;
  std::vector<std::int32_t> positions(static_cast<std::size_t>(T));
  std::iota(positions.begin(), positions.end(), 0);
  bench.cost = rope_append_cost(q.shape, kKeyHeads, DType::f32, DType::f32);
  bench.tolerance = 0;
  bench.record([&](BufferSet& set) {
    const Tensor values = set.input(cache), rows = set.input({T}, positions);
    record_rope_append(set.batch(),
                       {.queries = set.input(q),
                        .keys = set.input(k),
                        .values = set.input(v),
                        .key_cache = set.input(cache),
                        .value_cache = values,
                        .positions = rows,
                        .slots = rows,
                        .table = set.input(table)},
                       RopeLayout::half_split);
    set.expect(values, [&] {
      std::vector<double> want = cache.values;
      std::ranges::copy(v.values, want.begin());
      return want;
    });
  });
}

const bool kAdded = add_family([] {
  for (const std::int64_t T : {1, 64}) {
    add({.op = "rope_append", .shape = {T, kHeads, kWidth}, .words = {"warm"}}, rope_append, T);
  }
});

}  // namespace
}  // namespace clora::bench
