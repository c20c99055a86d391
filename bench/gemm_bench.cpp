// gemm/fused/TYPE/MxNxK[/rN] and gemm_backward: products with the weights of SmolLM2-135M's layers
// and head, and with square matrices.
#include "clora/ops/gemm/gemm.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::bench {
namespace {

struct Product {
  bool backward = false;
  DType type = DType::f32;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t rank = 0;
};

// The last row of the product in double, without the low-rank term, whose factors are zero; a full
// reference would take longer than the bench.
std::vector<double> last_row(const Product& p, std::span<const double> x,
                             std::span<const double> w) {
  const auto k = static_cast<std::size_t>(p.k);
  const auto n = static_cast<std::size_t>(p.n);
  std::vector<double> row(p.backward ? k : n);
  const std::span last = x.last(p.backward ? n : k);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < k; ++j) {
      const double weight = w[i * k + j];
      if (p.backward) row[j] += last[i] * weight;
      if (!p.backward) row[i] += last[j] * weight;
    }
  }
  return row;
}

void gemm(OpBench& bench, const Product& p) {
  const Shape in{p.m, p.backward ? p.n : p.k}, out{p.m, p.backward ? p.k : p.n};
  const auto weights = test::random_weights(p.type, p.n, p.k, 1);
  const Operand x(in, 2);
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const Tensor w = set.weights(weights);
    const Tensor y = set.output(out);
    LowRankTerm low_rank;
    if (p.rank > 0) low_rank = {set.zeros({p.m, p.rank}), set.zeros({p.rank, out[1]}), 1};
    bench.cost = gemm_cost(p.m, w);
    bench.cost.flops += 2.0 * static_cast<double>(p.m * p.rank * out[1]);
    if (p.backward) {
      record_gemm_backward(set.batch(), y, set.input(x), w, Accumulate::no, low_rank);
    } else {
      record_gemm(set.batch(), y, set.input(x), w, {.low_rank = low_rank});
    }
    set.expect_error([&, y] {
      const auto got = bench.context().read<float>(y);
      return largest_error(std::span(got).last(static_cast<std::size_t>(out[1])),
                           last_row(p, x.values, weights.values));
    });
  });
}

// With f32 weights also warm, as the libraries and the peers' programs are measured.
void add_product(const Product& p) {
  const Name name{.op = p.backward ? "gemm_backward" : "gemm",
                  .type = std::string(name_of(p.type)),
                  .shape = {p.m, p.n, p.k},
                  .rank = p.rank};
  add_both(name, gemm, p);
  if (p.type == DType::f32) add_both(name.with("warm"), gemm, p);
}

const bool kAdded = add_family([] {
  for (const bool backward : {false, true}) {
    for (const DType type : {DType::f32, DType::q4_1, DType::q8_0}) {
      add_product({backward, type, 2048, 576, 576});
      add_product({backward, type, 2048, 192, 576});
      add_product({backward, type, 2048, 1536, 576});
      add_product({backward, type, 2048, 576, 1536});
    }
    for (const std::int64_t rows : {256, 512}) {
      add_product({backward, DType::f32, rows, 576, 576});
      add_product({backward, DType::f32, rows, 1536, 576});
    }
    for (const std::int64_t width : {512, 1024, 2048}) {
      for (const std::int64_t rows : {64, 1}) {
        add_product({backward, DType::f32, rows, width, width});
      }
    }
    add_product({backward, DType::f32, 2048, 2048, 2048});
    add_product({backward, DType::f32, 2048, 576, 576, 16});
    add_product({backward, DType::q8_0, 256, 49152, 576});
    add_product({backward, DType::q8_0, 512, 49152, 576});
    for (const std::int64_t rows : {64, 128}) add_product({backward, DType::q4_1, rows, 1536, 576});
  }
  for (const std::int64_t rows : {1, 4, 8}) {
    add_product({false, DType::q4_1, rows, 1536, 576});
    add_product({false, DType::q4_1, rows, 1536, 576, 16});
    add_product({false, DType::q8_0, rows, 49152, 576});
    add_product({false, DType::bf16, rows, 4864, 896});  // gate of Qwen2.5-0.5B
  }
});

}  // namespace
}  // namespace clora::bench
