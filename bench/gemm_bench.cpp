// gemm/DIRECTION/TYPE/M x N x K: products with the weights of SmolLM2-135M's layers and head.
// Products of few rows (decoding) rotate through copies of the weights that no cache holds.
#include "ops/gemm.hpp"

#include <fmt/format.h>

#include "bench/support/op_bench.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora {
namespace {

struct Product {
  bool backward = false;
  DType type = DType::f32;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t rank = 0;
  std::string name() const {
    return fmt::format("gemm{}/fused/{}/{}x{}x{}{}", backward ? "_backward" : "", name_of(type), m,
                       n, k, rank > 0 ? "/r" + std::to_string(rank) : "");
  }
};

constexpr std::size_t kBeyondCaches = 96U << 20U;

// Row `m` of the product in double; the whole would take longer than the bench.
std::vector<double> reference_row(const Product& p, std::span<const float> x,
                                  std::span<const double> w) {
  const auto k = static_cast<std::size_t>(p.k);
  const auto n = static_cast<std::size_t>(p.n);
  std::vector<double> row(p.backward ? k : n);
  const std::span last = x.last(p.backward ? n : k);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const double weight = w[i * k + j];
      if (p.backward) row[j] += static_cast<double>(last[i]) * weight;
      if (!p.backward) row[i] += static_cast<double>(last[j]) * weight;
    }
  }
  return row;
}

void run(benchmark::State& state, const Product& p) {
  const std::int64_t in = p.backward ? p.n : p.k;
  const std::int64_t out = p.backward ? p.k : p.n;
  const auto weights = test::random_weights(p.type, p.n, p.k, 1);
  const auto x = bench::random_values(static_cast<std::size_t>(p.m * in), 2);
  const Tensor x_device = bench::upload({p.m, in}, x);
  const Tensor y = bench::zeros({p.m, out});
  LowRankTerm low_rank;
  if (p.rank > 0) low_rank = {bench::zeros({p.m, p.rank}), bench::zeros({p.rank, out}), 1};
  const std::size_t copies = p.m < 12 ? kBeyondCaches / weights.bytes.size() + 1 : 1;
  const Layout layout = preferred_layout(bench::context(), {p.n, p.k}, p.type);
  Batch batch(bench::context());
  for (std::size_t i = 0; i < copies; ++i) {
    const Tensor w = weights.upload(bench::context(), layout);
    if (p.backward) {
      record_gemm_backward(batch, y, x_device, w, Accumulate::no, low_rank);
    } else {
      record_gemm(batch, y, x_device, w, {.low_rank = low_rank});
    }
  }
  batch.submit().wait();
  const auto got = bench::context().read<float>(y);
  const std::span last_row = std::span(got).last(static_cast<std::size_t>(out));
  const double error = bench::largest_error(last_row, reference_row(p, x, weights.values));
  if (!bench::check(state, error)) return;
  const Tensor w = weights.upload(bench::context());
  bench::time_best_replay(state, batch, copies, gemm_cost(p.m, w));
}

const bool kRegistered = [] {
  std::vector<Product> products;
  for (const DType type : {DType::f32, DType::q4_1, DType::q8_0}) {
    for (const bool backward : {false, true}) {
      products.push_back({backward, type, 2048, 576, 576});
      products.push_back({backward, type, 2048, 192, 576});
      products.push_back({backward, type, 2048, 1536, 576});
      products.push_back({backward, type, 2048, 576, 1536});
    }
  }
  products.push_back({false, DType::f32, 2048, 576, 576, 16});
  products.push_back({true, DType::f32, 2048, 576, 576, 16});
  for (const bool backward : {false, true}) {
    products.push_back({backward, DType::q8_0, 256, 49152, 576});
    products.push_back({backward, DType::q8_0, 512, 49152, 576});
    products.push_back({backward, DType::q4_1, 64, 1536, 576});
  }
  for (const std::int64_t m : {1, 4, 8}) {
    products.push_back({false, DType::q4_1, m, 1536, 576});
    products.push_back({false, DType::q4_1, m, 1536, 576, 16});
    products.push_back({false, DType::q8_0, m, 49152, 576});
  }
  for (const Product& p : products) {
    benchmark::RegisterBenchmark(p.name().c_str(), run, p)->UseManualTime()->MinTime(0.15);
  }
  return true;
}();

}  // namespace
}  // namespace clora
