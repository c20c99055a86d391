// gemm/fused/bf16/MxNxK/warm/queued/bf16 and gemm_backward: square products, and those of the
// linear layers of Qwen2.5-0.5B and 7B, with bf16 activations, weights and results; and
// gemm/fused/f32/MxNxK/warm/queued, products in f32. Only on GPUs (wants_large()).
#include "bench/support/bulk.hpp"
#include "clora/ops/gemm/gemm.hpp"

namespace clora::bench {
namespace {

struct Product {
  bool backward = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType type = DType::bf16;
};

std::vector<double> last_row(const Product& p, const Bulk& x, const Bulk& w) {
  const std::vector<double> last = x.last_row();
  std::vector<double> row(static_cast<std::size_t>(p.backward ? p.k : p.n));
  for (std::int64_t i = 0; i < p.n; ++i) {
    const std::vector<double> weights = w.row(i);
    const auto at = static_cast<std::size_t>(i);
    for (std::size_t j = 0; j < weights.size(); ++j) {
      if (p.backward) row[j] += last[at] * weights[j];
      if (!p.backward) row[at] += last[j] * weights[j];
    }
  }
  return row;
}

void gemm_large(OpBench& bench, const Product& p) {
  const Bulk w({p.n, p.k}, p.type, 1);
  const Bulk x({p.m, p.backward ? p.n : p.k}, p.type, 2);
  bench.repeats = OpBench::kQueued;
  bench.record([&](BufferSet& set) {
    const Tensor weights = w.upload_weights(set), in = x.upload(set);
    const Tensor out = bulk_output(set, {p.m, p.backward ? p.k : p.n}, p.type);
    bench.cost = gemm_cost(p.m, weights);
    bench.cost.bytes = static_cast<double>(weights.bytes() + in.bytes() + out.bytes());
    for (std::size_t i = 0; i < bench.repeats; ++i) {
      if (p.backward) {
        record_gemm_backward(set.batch(), out, in, weights, Accumulate::no);
      } else {
        record_gemm(set.batch(), out, in, weights);
      }
    }
    expect_last(set, out, [&] { return last_row(p, x, w); });
  });
}

void add_product(const Product& p) {
  const bool f32 = p.type == DType::f32;
  Name name{.op = p.backward ? "gemm_backward" : "gemm",
            .type = std::string(name_of(p.type)),
            .shape = {p.m, p.n, p.k},
            .words = {"warm", "queued"}};
  if (!f32) name = name.with("bf16");
  add_op(name, f32 ? Arithmetic::f32 : Arithmetic::bf16,
         [p](OpBench& bench) { gemm_large(bench, p); });
}

// The linear layers of the 0.5B model, whose products in f32 take milliseconds.
void add_f32_products(bool backward) {
  add_product({backward, 4096, 4096, 4096, DType::f32});
  for (const std::int64_t rows : {8192, 4096}) {
    add_product({backward, rows, 128, 896, DType::f32});
    add_product({backward, rows, 896, 896, DType::f32});
    add_product({backward, rows, 4864, 896, DType::f32});
    add_product({backward, rows, 896, 4864, DType::f32});
  }
}

const bool kAdded = add_family([] {
  if (!wants_large()) return;
  for (const bool backward : {false, true}) add_f32_products(backward);
  if (!has(Arithmetic::bf16)) return;
  struct Linear {
    std::int64_t n, k;
  };
  for (const bool backward : {false, true}) {
    for (const std::int64_t width : {1024, 2048, 4096}) {
      add_product({backward, 4096, width, width});
    }
    add_product({backward, 8192, 8192, 8192});
    for (const std::int64_t rows : {8192, 4096, 1024}) {
      for (const auto& [n, k] : {Linear{128, 896},
                                 {896, 896},
                                 {4864, 896},
                                 {896, 4864},
                                 {512, 3584},
                                 {3584, 3584},
                                 {18944, 3584},
                                 {3584, 18944}}) {
        add_product({backward, rows, n, k});
      }
    }
  }
  add_product({true, 1024, 9728, 896});  // gate and up, accumulated in one product
});

}  // namespace
}  // namespace clora::bench
