// delta_rule/fused/f32/TxHxKxV and delta_rule_backward: the gated delta rule with H key and value
// heads on rows of one document.
#include "clora/ops/recurrent/delta_rule.hpp"

#include <cmath>

#include "bench/support/op_bench.hpp"
#include "tests/reference/delta_rule_reference.hpp"

namespace clora::bench {
namespace {

struct Problem {
  reference::DeltaRuleProblem p;
  Operand qkv, a, b, dy, rate, dt_bias;

  Problem(std::int64_t T, const DeltaRuleHeads& heads)
      : qkv({T, heads.width()}, 1),
        a({T, heads.value_heads}, 2),
        b({T, heads.value_heads}, 3),
        dy({T, heads.values()}, 4),
        rate({heads.value_heads}, 5),
        dt_bias({heads.value_heads}, 6) {
    for (std::size_t i = 0; i < rate.floats.size(); ++i) {
      rate.floats[i] = -0.1F - std::abs(rate.floats[i]);
      rate.values[i] = double{rate.floats[i]};
    }
    p = {heads, rate.values, dt_bias.values,
         std::vector<std::int32_t>(static_cast<std::size_t>(T), 0)};
  }
  reference::DeltaRuleValues values() const { return {qkv.values, a.values, b.values}; }
  DeltaRuleInputs inputs(BufferSet& set) const {
    return {.heads = p.heads,
            .qkv = set.input(qkv),
            .a = set.input(a),
            .b = set.input(b),
            .rate = set.input(rate),
            .dt_bias = set.input(dt_bias),
            .rows = set.input({qkv.shape[0]}, p.first)};
  }
};

void forward(OpBench& bench, std::int64_t T, const DeltaRuleHeads& heads) {
  const Problem problem(T, heads);
  bench.cost = delta_rule_cost(T, heads);
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const Tensor y = set.output(problem.dy.shape);
    record_delta_rule(set.batch(), y, problem.inputs(set));
    set.expect(y, [&] {
      const auto values = problem.values();
      return reference::DeltaRule(problem.p, values).forward();
    });
  });
}

void backward(OpBench& bench, std::int64_t T, const DeltaRuleHeads& heads) {
  const Problem problem(T, heads);
  bench.cost = delta_rule_backward_cost(T, heads);
  bench.tolerance = 1e-4;
  const auto values = problem.values();
  const auto want = reference::DeltaRule(problem.p, values).backward(problem.dy.values);
  bench.record([&](BufferSet& set) {
    const Tensor dqkv = set.output(problem.qkv.shape), da = set.output(problem.a.shape);
    const Tensor db = set.output(problem.b.shape);
    record_delta_rule_backward(set.batch(), {dqkv, da, db}, set.input(problem.dy),
                               problem.inputs(set));
    set.expect(dqkv, [&] { return want.qkv; });
    set.expect(da, [&] { return want.a; });
    set.expect(db, [&] { return want.b; });
  });
}

const bool kAdded = add_family([] {
  const DeltaRuleHeads few{2, 2, 128, 128};
  add({.op = "delta_rule", .shape = {512, 2, 128, 128}}, forward, std::int64_t{512}, few);
  add({.op = "delta_rule_backward", .shape = {512, 2, 128, 128}}, backward, std::int64_t{512}, few);
});

}  // namespace
}  // namespace clora::bench
