// attention/fused/f32/DOCUMENTSxLENGTHxHxE and attention_backward: packed training rows;
// attention_cached/fused/f32/TxPOSITIONSxHxE: T queries at the end of a filled KV cache;
// cache_append/fused/f32/TxGxE/warm: appends T rows to the cache. The heads are those of
// SmolLM2-135M (H 9, G 3, E 64).
#include "clora/ops/attention/attention.hpp"

#include <numeric>

#include "bench/support/op_bench.hpp"
#include "tests/reference/attention_reference.hpp"

namespace clora::bench {
namespace {

constexpr std::int64_t kHeads = 9, kKeyHeads = 3, kWidth = 64;
using Ints = std::vector<std::int32_t>;

struct Problem {
  test::AttentionSizes n;
  Operand q, k, v, dy;
  Ints first, last;

  // The query rows attend to the key rows first .. last of `keys`.
  Problem(std::int64_t keys, Ints begins, Ints ends)
      : n{ends.size(), static_cast<std::size_t>(keys), kHeads, kKeyHeads, kWidth},
        q({std::ssize(ends), kHeads, kWidth}, 1),
        k({keys, kKeyHeads, kWidth}, 2),
        v({keys, kKeyHeads, kWidth}, 3),
        dy(q.shape, 4),
        first(std::move(begins)),
        last(std::move(ends)) {}
  double pairs() const {
    return std::accumulate(last.begin(), last.end(), 0.0) -
           std::accumulate(first.begin(), first.end(), 0.0) + static_cast<double>(last.size());
  }
  Cost cost() const { return attention_cost(q.shape, pairs()); }
  AttentionInputs inputs(BufferSet& set) const {
    const Shape rows{q.shape[0]};
    return {set.input(q),           set.input(k),          set.input(v),
            set.input(rows, first), set.input(rows, last), 0.125F};
  }
  test::AttentionResult reference() const {
    return test::attention_reference(n, q.values, k.values, v.values, first, last, 0.125);
  }
};

Problem packed(std::int64_t documents, std::int64_t length) {
  Ints first, last;
  for (std::int64_t t = 0; t < documents * length; ++t) {
    first.push_back(static_cast<std::int32_t>(t / length * length));
    last.push_back(static_cast<std::int32_t>(t));
  }
  return {documents * length, std::move(first), std::move(last)};
}

Problem cached(std::int64_t T, std::int64_t filled) {
  Ints last(static_cast<std::size_t>(T));
  std::iota(last.begin(), last.end(), static_cast<std::int32_t>(filled - T));
  return {filled + 64, Ints(static_cast<std::size_t>(T), 0), std::move(last)};
}

void forward_of(OpBench& bench, const Problem& p) {
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const Tensor y = set.output(p.q.shape), logs = set.output({p.q.shape[0], kHeads});
    record_attention(set.batch(), y, logs, p.inputs(set));
    set.expect(y, [&] { return p.reference().y; });
  });
}

void attention(OpBench& bench, std::int64_t documents, std::int64_t length) {
  const Problem p = packed(documents, length);
  bench.cost = p.cost();
  forward_of(bench, p);
}

void attention_cached(OpBench& bench, std::int64_t T, std::int64_t filled) {
  const Problem p = cached(T, filled);
  bench.cost = p.cost();
  bench.cost.bytes += 2.0 * 4 * static_cast<double>(filled * kKeyHeads * kWidth);  // K, V once
  forward_of(bench, p);
}

void attention_backward(OpBench& bench, std::int64_t documents, std::int64_t length) {
  const Problem p = packed(documents, length);
  const auto want = test::attention_backward_reference(p.n, p.dy.values, p.q.values, p.k.values,
                                                       p.v.values, p.first, p.last, 0.125);
  bench.cost = {2.5 * p.cost().flops, 2 * p.cost().bytes};
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const AttentionInputs in = p.inputs(set);
    const Tensor y = set.output(p.q.shape), logs = set.output({p.q.shape[0], kHeads});
    Batch before(bench.context());
    record_attention(before, y, logs, in);
    before.submit().wait();
    const AttentionGradients out{set.output(p.q.shape), set.output(p.k.shape),
                                 set.output(p.v.shape)};
    record_attention_backward(set.batch(), out, set.input(p.dy), y, logs, in);
    set.expect(out.dq, [&] { return want.dq; });
    set.expect(out.dk, [&] { return want.dk; });
    set.expect(out.dv, [&] { return want.dv; });
  });
}

// The KV cache update of decoding: one row per layer, into a cache that was read just before.
void cache_append(OpBench& bench, std::int64_t T) {
  constexpr std::int64_t kPositions = 1024;
  const Operand cache({kPositions, kKeyHeads, kWidth}, 1);
  const Operand rows({T, kKeyHeads, kWidth}, 2);
  Ints positions(static_cast<std::size_t>(T));
  std::iota(positions.begin(), positions.end(), 100);
  bench.cost = {0, 8 * static_cast<double>(rows.shape.elements())};
  bench.tolerance = 0;
  bench.record([&](BufferSet& set) {
    const Tensor into = set.input(cache);
    record_cache_append(set.batch(), into, set.input(rows), set.input({T}, positions));
    set.expect(into, [&] {
      std::vector<double> want = cache.values;
      std::ranges::copy(rows.values, want.begin() + 100 * kKeyHeads * kWidth);
      return want;
    });
  });
}

const bool kAdded = add_family([] {
  for (const auto& [documents, length] :
       {std::pair<std::int64_t, std::int64_t>{4, 512}, {1, 2048}, {1, 128}}) {
    const Shape shape{documents, length, kHeads, kWidth};
    add_both({.op = "attention", .shape = shape}, attention, documents, length);
    add_both({.op = "attention_backward", .shape = shape}, attention_backward, documents, length);
  }
  for (const auto& [T, filled] : {std::pair<std::int64_t, std::int64_t>{1, 64},
                                  {1, 1024},
                                  {1, 2000},
                                  {16, 1024},
                                  {17, 1024},
                                  {128, 1024}}) {
    add_both({.op = "attention_cached", .shape = {T, filled, kHeads, kWidth}}, attention_cached, T,
             filled);
  }
  for (const std::int64_t T : {1, 512}) {
    add({.op = "cache_append", .shape = {T, kKeyHeads, kWidth}, .words = {"warm"}}, cache_append,
        T);
  }
});

}  // namespace
}  // namespace clora::bench
