// attention_pages/fused/bf16/TxKEYSxHxE/bf16: a decoding step of T sequences that each attend to
// KEYS keys of bf16 in their own pages of the cache, with the heads of Qwen2.5 (seven query heads
// per key/value head). Only on GPUs (wants_large()).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/support/bulk.hpp"
#include "clora/ops/attention/attention.hpp"
#include "tests/reference/attention_reference.hpp"

namespace clora::bench {
namespace {

constexpr std::int64_t kQueryHeadsOfAKeyHead = 7, kPage = 16;
using Ints = std::vector<std::int32_t>;

// A step in which the pages of all sequences alternate in the cache.
struct Step {
  std::int64_t T, keys, H, E;

  std::int64_t G() const { return H / kQueryHeadsOfAKeyHead; }
  std::int64_t pages() const { return (keys + kPage - 1) / kPage; }  // of a sequence
  std::int64_t page(std::int64_t t, std::int64_t n) const { return n * T + (t + 5 * n) % T; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(E)); }
  Cost cost() const {
    Cost cost = attention_cost({T, H, E}, static_cast<double>(T * keys));
    cost.bytes = 2.0 * 2 * static_cast<double>(T * E * (keys * G() + H));
    return cost;
  }
  Ints tables() const {
    Ints tables;
    for (std::int64_t t = 0; t < T; ++t) {
      for (std::int64_t n = 0; n < pages(); ++n) {
        tables.push_back(static_cast<std::int32_t>(page(t, n)));
      }
    }
    return tables;
  }
};

// The keys, or the values, of the last row in order.
std::vector<double> of_last_row(const Step& step, const Bulk& cache) {
  const auto width = static_cast<std::size_t>(step.G() * step.E);
  std::vector<double> rows;
  for (std::int64_t key = 0; key < step.keys; ++key) {
    const std::int64_t row = step.page(step.T - 1, key / kPage) * kPage + key % kPage;
    const std::vector<double> one = cache.part(static_cast<std::size_t>(row) * width, width);
    rows.insert(rows.end(), one.begin(), one.end());
  }
  return rows;
}

std::vector<double> last_result(const Step& step, const Bulk& q, const Bulk& k, const Bulk& v) {
  const test::AttentionSizes n{1, static_cast<std::size_t>(step.keys),
                               static_cast<std::size_t>(step.H), static_cast<std::size_t>(step.G()),
                               static_cast<std::size_t>(step.E)};
  const std::vector<double> row =
      q.part(static_cast<std::size_t>((step.T - 1) * step.H * step.E), n.queries());
  return test::attention_reference(n, row, of_last_row(step, k), of_last_row(step, v), Ints{0},
                                   Ints{static_cast<std::int32_t>(step.keys) - 1}, step.scale())
      .y;
}

void attention(OpBench& bench, const Step& step) {
  const Bulk q({step.T, step.H, step.E}, DType::bf16, 1);
  const Bulk k({step.T * step.pages() * kPage, step.G(), step.E}, DType::bf16, 2);
  const Bulk v(k.shape(), DType::bf16, 3);
  const auto rows = static_cast<std::size_t>(step.T);
  Ints table_of(rows);
  std::iota(table_of.begin(), table_of.end(), 0);
  bench.cost = step.cost();
  bench.tolerance = 0.02;
  bench.record([&](BufferSet& set) {
    const Tensor y = bulk_output(set, q.shape(), DType::bf16);
    const AttentionInputs in{
        .q = q.upload(set),
        .k = k.upload(set),
        .v = v.upload(set),
        .first = set.input({step.T}, Ints(rows, 0)),
        .last = set.input({step.T}, Ints(rows, static_cast<std::int32_t>(step.keys) - 1)),
        .scale = step.scale(),
        .pages = {.tables = set.input({step.T, step.pages()}, step.tables()),
                  .table_of = set.input({step.T}, table_of),
                  .positions = kPage}};
    record_attention(set.batch(), y, {}, in);
    expect_last(set, y, [&] { return last_result(step, q, k, v); });
  });
}

const bool kAdded = add_family([] {
  if (!wants_large() || !has(Arithmetic::bf16)) return;
  for (const Step& step : {Step{64, 600, 28, 128}, Step{48, 600, 28, 128}, Step{32, 600, 28, 128},
                           Step{16, 600, 28, 128}, Step{2, 600, 28, 128}, Step{128, 600, 28, 128},
                           Step{8, 8000, 28, 128}, Step{64, 600, 14, 64}, Step{256, 600, 14, 64},
                           Step{16, 600, 14, 64}}) {
    const Name name{.op = "attention_pages",
                    .type = "bf16",
                    .shape = {step.T, step.keys, step.H, step.E},
                    .words = {"bf16"}};
    add_op(name, Arithmetic::bf16, [=](OpBench& bench) { attention(bench, step); });
  }
});

}  // namespace
}  // namespace clora::bench
