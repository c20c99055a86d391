// delta_rule_training/fused/TYPE/TxHxKxV: forward and backward of the gated delta rule with H key
// and value heads at the size of Qwen3.5-0.8B, as a step of training computes them: two documents,
// of which the last, short one is compared with the reference. bench/peers/delta_rule_peers.py
// times the same with PyTorch. Only on GPUs (wants_large()).
#include "bench/support/bulk.hpp"
#include "clora/ops/recurrent/delta_rule.hpp"
#include "tests/reference/delta_rule_reference.hpp"

namespace clora::bench {
namespace {

constexpr std::int64_t kLastDocument = 100;

struct Problem {
  DeltaRuleHeads heads;
  Bulk qkv, a, b, dy, rate, dt_bias;
  std::vector<std::int32_t> first;

  Problem(std::int64_t T, const DeltaRuleHeads& h, DType type)
      : heads(h),
        qkv({T, h.width()}, type, 1),
        a({T, h.value_heads}, type, 2),
        b({T, h.value_heads}, type, 3),
        dy({T, h.values()}, type, 4),
        rate({h.value_heads}, DType::f32, 5),
        dt_bias({h.value_heads}, DType::f32, 6),
        first(static_cast<std::size_t>(T), 0) {
    const auto begin = static_cast<std::int32_t>(T - kLastDocument);
    std::fill(first.begin() + begin, first.end(), begin);
  }
  // The rate must be negative.
  std::vector<float> rates() const {
    std::vector<float> values;
    for (const double value : rate.part(0, static_cast<std::size_t>(heads.value_heads))) {
      values.push_back(static_cast<float>(-0.1 - std::abs(value)));
    }
    return values;
  }
  DeltaRuleInputs inputs(BufferSet& set) const {
    return {.heads = heads,
            .qkv = qkv.upload(set),
            .a = a.upload(set),
            .b = b.upload(set),
            .rate = set.input({heads.value_heads}, rates()),
            .dt_bias = dt_bias.upload(set),
            .rows = set.input({qkv.shape()[0]}, first)};
  }
};

std::vector<double> last_rows(const Bulk& of) {
  const auto count = static_cast<std::size_t>(kLastDocument * of.shape().last());
  return of.part(static_cast<std::size_t>(of.shape().elements()) - count, count);
}

// Of the last document.
struct Reference {
  reference::DeltaRuleProblem p;
  reference::DeltaRuleValues x;
  std::vector<double> dy;

  explicit Reference(const Problem& problem)
      : x{last_rows(problem.qkv), last_rows(problem.a), last_rows(problem.b)},
        dy(last_rows(problem.dy)) {
    const std::vector<float> rates = problem.rates();
    p = {problem.heads,
         {rates.begin(), rates.end()},
         problem.dt_bias.part(0, rates.size()),
         std::vector<std::int32_t>(kLastDocument, 0)};
  }
  std::vector<double> y() const { return reference::DeltaRule(p, x).forward(); }
  reference::DeltaRuleValues gradients() const { return reference::DeltaRule(p, x).backward(dy); }
};

void training(OpBench& bench, std::int64_t T, const DeltaRuleHeads& heads, DType type) {
  const Problem problem(T, heads, type);
  const Cost forward = delta_rule_cost(T, heads, type);
  const Cost backward = delta_rule_backward_cost(T, heads, type);
  bench.cost = {forward.flops + backward.flops, forward.bytes + backward.bytes};
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const DeltaRuleInputs in = problem.inputs(set);
    const Tensor y = bulk_output(set, problem.dy.shape(), type);
    const Tensor dqkv = bulk_output(set, problem.qkv.shape(), type);
    const Tensor da = bulk_output(set, problem.a.shape(), type);
    const Tensor db = bulk_output(set, problem.b.shape(), type);
    record_delta_rule(set.batch(), y, in);
    record_delta_rule_backward(set.batch(), {dqkv, da, db}, problem.dy.upload(set), in);
    expect_last(set, y, [&] { return Reference(problem).y(); });
    expect_last(set, dqkv, [&] { return Reference(problem).gradients().qkv; });
    expect_last(set, da, [&] { return Reference(problem).gradients().a; });
    expect_last(set, db, [&] { return Reference(problem).gradients().b; });
  });
}

const bool kAdded = add_family([] {
  if (!wants_large() || !has(Arithmetic::bf16)) return;
  constexpr std::int64_t kRows = 8192;
  const Shape shape{kRows, 16, 128, 128};
  const DeltaRuleHeads heads{16, 16, 128, 128};
  for (const DType type : {DType::f32, DType::bf16}) {
    const auto arithmetic = type == DType::f32 ? Arithmetic::f32 : Arithmetic::bf16;
    add_op({.op = "delta_rule_training",
            .type = std::string(name_of(type)),
            .shape = shape,
            .words = {"warm"}},
           arithmetic, [=](OpBench& bench) { training(bench, kRows, heads, type); });
  }
});

}  // namespace
}  // namespace clora::bench
