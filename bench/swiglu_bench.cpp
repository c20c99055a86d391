// swiglu/fused/TYPE/TxF and swiglu_backward: SmolLM2-135M's intermediate size. One row, as in
// decoding, is measured warm. bf16: the forward pass that also saves gate and up in bf16, and the
// backward pass from them. recompute: the backward pass that also writes the forward result.
#include "clora/ops/rowwise/swiglu.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/swiglu_reference.hpp"

namespace clora::bench {
namespace {

SwigluSaved allocate_saved(OpBench& bench, BufferSet& set, const Shape& shape) {
  const auto bf16_buffer = [&] {
    return set.keep(bench.context().allocate(shape, DType::bf16, MemoryTag::scratch));
  };
  return {bf16_buffer(), bf16_buffer()};
}

void swiglu(OpBench& bench, const Shape& shape, bool saves) {
  const Operand gate(shape, 1);
  const Operand up(shape, 2);
  bench.cost = swiglu_cost(shape, DType::f32, saves);
  bench.record([&](BufferSet& set) {
    const Tensor y = set.output(shape);
    const SwigluSaved saved = saves ? allocate_saved(bench, set, shape) : SwigluSaved{};
    record_swiglu(set.batch(), y, set.input(gate), set.input(up), saved);
    set.expect(y, [&] { return reference::swiglu(gate.values, up.values); });
  });
}

void swiglu_backward(OpBench& bench, const Shape& shape, bool recompute) {
  const Operand gate(shape, 1);
  const Operand up(shape, 2);
  const Operand dy(shape, 3);
  const auto want = reference::swiglu_backward(dy.values, gate.values, up.values);
  bench.cost = swiglu_backward_cost(shape, DType::f32, DType::f32, DType::f32,
                                    recompute ? std::optional(DType::f32) : std::nullopt);
  bench.record([&](BufferSet& set) {
    const Tensor dgate = set.output(shape), dup = set.output(shape);
    const Tensor y = recompute ? set.output(shape) : Tensor();
    record_swiglu_backward(set.batch(), dgate, dup, set.input(dy), set.input(gate), set.input(up),
                           y);
    if (recompute) set.expect(y, [&] { return reference::swiglu(gate.values, up.values); });
    set.expect(dgate, [&] { return want.dgate; });
    set.expect(dup, [&] { return want.dup; });
  });
}

void swiglu_backward_saved(OpBench& bench, const Shape& shape) {
  const Operand gate(shape, 1);
  const Operand up(shape, 2);
  const Operand dy(shape, 3);
  const auto want = reference::swiglu_backward(dy.values, gate.values, up.values);
  bench.cost = swiglu_backward_cost(shape, DType::bf16);
  bench.tolerance = 1e-2;  // two ulp of bf16
  bench.record([&](BufferSet& set) {
    const Tensor dgate = set.output(shape), dup = set.output(shape);
    const SwigluSaved saved = allocate_saved(bench, set, shape);
    Batch once(bench.context());
    record_swiglu(once, dup, set.input(gate), set.input(up), saved);
    once.submit().wait();
    record_swiglu_backward(set.batch(), dgate, dup, set.input(dy), saved.gate, saved.up);
    set.expect(dgate, [&] { return want.dgate; });
    set.expect(dup, [&] { return want.dup; });
  });
}

const bool kAdded = add_family([] {
  const Shape rows{2048, 1536}, row{1, 1536};
  add({.op = "swiglu", .shape = rows}, swiglu, rows, false);
  add({.op = "swiglu", .shape = row, .words = {"warm"}}, swiglu, row, false);
  add({.op = "swiglu_backward", .shape = rows}, swiglu_backward, rows, false);
  add({.op = "swiglu_backward", .shape = rows, .words = {"recompute"}}, swiglu_backward, rows,
      true);
  add({.op = "swiglu", .type = "bf16", .shape = rows}, swiglu, rows, true);
  add({.op = "swiglu_backward", .type = "bf16", .shape = rows}, swiglu_backward_saved, rows);
});

}  // namespace
}  // namespace clora::bench
