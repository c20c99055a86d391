// cast/fused/TYPE/TxF, TYPE the one cast to: activations of SmolLM2-135M's feed-forward, as
// training keeps them for the backward.
#include "ops/cast.hpp"

#include "bench/support/op_bench.hpp"

namespace clora::bench {
namespace {

void cast(OpBench& bench, const Shape& shape, bool rounds) {
  const Operand x(shape, 1);
  bench.cost = cast_cost(shape);
  bench.tolerance = 4e-3;  // half an ulp of bf16
  bench.record([&](BufferSet& set) {
    const Tensor rounded =
        set.keep(bench.context().allocate(shape, DType::bf16, MemoryTag::scratch));
    const Tensor back = set.output(shape), input = set.input(x);
    if (rounds) record_cast(set.batch(), rounded, input);
    Batch once(bench.context());
    record_cast(once, rounded, input);
    once.submit().wait();
    if (!rounds) record_cast(set.batch(), back, rounded);
    set.expect_error([&, rounded, back] {
      Batch check(bench.context());
      record_cast(check, back, rounded);
      check.submit().wait();
      return largest_error(bench.context().read<float>(back), x.values);
    });
  });
}

const bool kAdded = add_family([] {
  const Shape rows{2048, 1536};
  add({.op = "cast", .type = "bf16", .shape = rows}, cast, rows, true);
  add({.op = "cast", .shape = rows}, cast, rows, false);
});

}  // namespace
}  // namespace clora::bench
