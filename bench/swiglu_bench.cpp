// swiglu/fused/f32/TxF and swiglu_backward: SmolLM2-135M's feed-forward width. One row, as in
// decoding, finds its numbers in the caches.
#include "ops/swiglu.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/swiglu_reference.hpp"

namespace clora::bench {
namespace {

void swiglu(OpBench& bench, const Shape& shape) {
  const Operand gate(shape, 1);
  const Operand up(shape, 2);
  bench.cost = swiglu_cost(shape);
  bench.record([&](BufferSet& set) {
    const Tensor y = set.output(shape);
    record_swiglu(set.batch(), y, set.input(gate), set.input(up));
    set.expect(y, [&] { return reference::swiglu(gate.values, up.values); });
  });
}

void swiglu_backward(OpBench& bench, const Shape& shape) {
  const Operand gate(shape, 1);
  const Operand up(shape, 2);
  const Operand dy(shape, 3);
  const auto want = reference::swiglu_backward(dy.values, gate.values, up.values);
  bench.cost = swiglu_backward_cost(shape);
  bench.record([&](BufferSet& set) {
    const Tensor dgate = set.output(shape), dup = set.output(shape);
    record_swiglu_backward(set.batch(), dgate, dup, set.input(dy), set.input(gate), set.input(up));
    set.expect(dgate, [&] { return want.dgate; });
    set.expect(dup, [&] { return want.dup; });
  });
}

const bool kAdded = add_family([] {
  const Shape rows{2048, 1536}, row{1, 1536};
  add({.op = "swiglu", .shape = rows}, swiglu, rows);
  add({.op = "swiglu", .shape = row, .words = {"warm"}}, swiglu, row);
  add({.op = "swiglu_backward", .shape = rows}, swiglu_backward, rows);
});

}  // namespace
}  // namespace clora::bench
