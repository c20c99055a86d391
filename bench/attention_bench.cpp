// attention/FORM/f32/SHAPE: packed training rows and decode steps of SmolLM2-135M's heads (H 9, G
// 3, E 64).
#include "ops/attention.hpp"

#include <functional>
#include <numeric>
#include <vector>

#include "bench/support/op_bench.hpp"
#include "tests/reference/attention_reference.hpp"

namespace clora {
namespace {

constexpr std::int64_t kHeads = 9, kKeyHeads = 3, kWidth = 64;
using Ints = std::vector<std::int32_t>;

struct Problem {
  test::AttentionSizes n;
  std::vector<float> q, k, v, dy;
  Ints first, last;
  AttentionInputs in;
  Tensor dy_tensor, y, logs;
  AttentionGradients out;

  Problem(std::int64_t T, std::int64_t Tk, Ints begins, Ints ends)
      : n{static_cast<std::size_t>(T), static_cast<std::size_t>(Tk), kHeads, kKeyHeads, kWidth},
        q(bench::random_values(n.queries(), 1)),
        k(bench::random_values(n.keys(), 2)),
        v(bench::random_values(n.keys(), 3)),
        dy(bench::random_values(n.queries(), 4)),
        first(std::move(begins)),
        last(std::move(ends)) {
    const Shape rows{T, kHeads, kWidth}, keys{Tk, kKeyHeads, kWidth};
    in = {bench::upload(rows, q),    bench::upload(keys, k),   bench::upload(keys, v),
          bench::upload({T}, first), bench::upload({T}, last), 0.125F};
    dy_tensor = bench::upload(rows, dy);
    const auto empty = [&](Shape shape) {
      return bench::context().allocate(shape, DType::f32, MemoryTag::scratch);
    };
    y = empty(rows);
    logs = empty({T, kHeads});
    out = {empty(rows), empty(keys), empty(keys)};
  }
  double pairs() const {
    return std::accumulate(last.begin(), last.end(), 0.0) -
           std::accumulate(first.begin(), first.end(), 0.0) + static_cast<double>(last.size());
  }
  Cost cost() const { return attention_cost(in.q.shape(), pairs()); }
  void forward(Batch& batch) const { record_attention(batch, y, logs, in); }
  void backward(Batch& batch) const {
    record_attention_backward(batch, out, dy_tensor, y, logs, in);
  }
  test::AttentionResult reference() const {
    return test::attention_reference(n, bench::to_double(q), bench::to_double(k),
                                     bench::to_double(v), first, last, 0.125);
  }
};

Problem packed(std::int64_t documents, std::int64_t length) {
  Ints first, last;
  for (std::int64_t t = 0; t < documents * length; ++t) {
    first.push_back(static_cast<std::int32_t>(t / length * length));
    last.push_back(static_cast<std::int32_t>(t));
  }
  return {documents * length, documents * length, std::move(first), std::move(last)};
}

Problem cached(std::int64_t T, std::int64_t filled) {
  Ints last(static_cast<std::size_t>(T));
  std::iota(last.begin(), last.end(), static_cast<std::int32_t>(filled - T));
  return {T, filled + 64, Ints(static_cast<std::size_t>(T), 0), std::move(last)};
}

void run_once(const std::function<void(Batch&)>& record) {
  Batch batch(bench::context());
  record(batch);
  batch.submit().wait();
}

bool forward_is_right(benchmark::State& state, const Problem& p) {
  run_once([&](Batch& batch) { p.forward(batch); });
  return bench::check(state,
                      bench::largest_error(bench::context().read<float>(p.y), p.reference().y));
}

void forward(benchmark::State& state) {
  const Problem p = packed(state.range(0), state.range(1));
  if (!forward_is_right(state, p)) return;
  bench::time_replays(state, p.cost(), 1, [&](Batch& batch) { p.forward(batch); });
}
BENCHMARK(forward)
    ->Name("attention/fused/f32")
    ->Args({4, 512})
    ->Args({1, 2048})
    ->MeasureProcessCPUTime()
    ->UseRealTime();

void backward(benchmark::State& state) {
  const Problem p = packed(state.range(0), state.range(1));
  if (!forward_is_right(state, p)) return;
  run_once([&](Batch& batch) { p.backward(batch); });
  const auto slopes = test::attention_backward_reference(
      p.n, bench::to_double(p.dy), bench::to_double(p.q), bench::to_double(p.k),
      bench::to_double(p.v), p.first, 0.125);
  const auto right = [&](const Tensor& got, const std::vector<double>& want) {
    return bench::check(state, bench::largest_error(bench::context().read<float>(got), want));
  };
  if (!right(p.out.dq, slopes.dq) || !right(p.out.dk, slopes.dk) || !right(p.out.dv, slopes.dv)) {
    return;
  }
  Cost cost = p.cost();
  cost.flops *= 2.5;
  cost.bytes *= 2;
  bench::time_replays(state, cost, 1, [&](Batch& batch) { p.backward(batch); });
}
BENCHMARK(backward)
    ->Name("attention_backward/fused/f32")
    ->Args({4, 512})
    ->Args({1, 2048})
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// Rows of queries at the end of a filled cache. gbps counts the reading of K and V once.
void decode(benchmark::State& state) {
  const Problem p = cached(state.range(0), state.range(1));
  if (!forward_is_right(state, p)) return;
  Cost cost = p.cost();
  cost.bytes += 2.0 * 4 * static_cast<double>(state.range(1) * kKeyHeads * kWidth);
  bench::time_replays(state, cost, 16, [&](Batch& batch) { p.forward(batch); });
}
BENCHMARK(decode)
    ->Name("attention_cached/fused/f32")
    ->Args({1, 64})
    ->Args({1, 1024})
    ->Args({1, 2000})
    ->Args({16, 1024})
    ->Args({17, 1024})
    ->Args({128, 1024})
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace clora
