// row_groups/fused/TYPE/TxDxF/rN/WORD...: the linear layers of one block (q, k, v; o; gate, up;
// down) for T rows of a serving step, without adapters (no_adapter), with one adapter of all rows
// (one_adapter), or with 8 adapters of T / 8 rows each (adapters_8), in one recorded batch. The
// goal of serving is the ratio of the first to the last.
#include "bench/support/bulk.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"

namespace clora::bench {
namespace {

enum class Adapters { none, one, many };
constexpr std::int64_t kAdapters = 8;

struct Block {
  DType type = DType::bf16;
  std::int64_t rows = 0, D = 0, kv = 0, F = 0;
  std::int64_t rank = 0;
  Adapters adapters = Adapters::none;
  std::int64_t stack() const { return adapters == Adapters::many ? kAdapters : 1; }
};

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// A layer's matrices on the host; w is quantised if the block's weights are.
struct Layer {
  std::int64_t n, k;
  bool is_quantised;
  test::WeightMatrix blocks;
  Bulk w, a, bt;

  Layer(const Block& of, std::int64_t columns, std::int64_t steps, std::uint32_t seed)
      : n(columns),
        k(steps),
        is_quantised(of.type != DType::bf16),
        blocks(test::random_weights(of.type, is_quantised ? n : 1, k, seed)),
        w({is_quantised ? 1 : n, k}, DType::bf16, seed),
        a({of.stack(), of.rank, k}, DType::f32, seed + 10),
        bt({of.stack(), of.rank, n}, DType::f32, seed + 20) {}

  std::vector<double> row(std::int64_t i) const {
    if (!is_quantised) return w.row(i);
    const auto begin = blocks.values.begin() + i * k;
    return {begin, begin + k};
  }
  // y of a row of x with the stack's last adapter, or with none.
  std::vector<double> y(const std::vector<double>& x, const Block& of) const {
    std::vector<double> y(size(n));
    for (std::int64_t i = 0; i < n; ++i) y[size(i)] = dot(x, row(i));
    for (std::int64_t r = 0; r < of.rank && of.adapters != Adapters::none; ++r) {
      const std::int64_t last = (of.stack() - 1) * of.rank + r;
      const double s = dot(x, a.row(last));
      const std::vector<double> u = bt.row(last);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += s * u[i];
    }
    return y;
  }
};

Tensor up_bf16(BufferSet& set, OpBench& bench, const Bulk& of, std::uint32_t seed) {
  if (!reads_bf16_adapter(bench.context())) return {};
  return Bulk(of.shape(), DType::bf16, seed).upload(set);
}

// Groups of as many rows, one for each adapter.
Tensor row_groups(BufferSet& set, OpBench& bench, const Block& of) {
  std::vector<RowGroup> groups;
  for (std::int64_t i = 0; i < kAdapters; ++i) {
    groups.push_back({of.rows * i / kAdapters, of.rows * (i + 1) / kAdapters,
                      static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(of.rank)});
  }
  return set.keep(bench.context().upload<std::uint32_t>(
      {of.rows, kRowGroupWords}, DType::u32, row_group_table(of.rows, groups), MemoryTag::scratch));
}

LoraWeights lora_of(BufferSet& set, OpBench& bench, const Block& of, const Layer& layer,
                    std::uint32_t seed, const Tensor& table) {
  if (of.adapters == Adapters::none) return {};
  LoraWeights lora{.a = layer.a.upload(set), .bt = layer.bt.upload(set)};
  lora.a_bf16 = up_bf16(set, bench, layer.a, seed + 10);
  lora.bt_bf16 = up_bf16(set, bench, layer.bt, seed + 20);
  if (of.adapters == Adapters::many) {
    lora.row_groups = table;
    return lora;
  }
  for (Tensor* matrix : {&lora.a, &lora.bt, &lora.a_bf16, &lora.bt_bf16}) {
    if (!matrix->empty()) *matrix = matrix->reshape({of.rank, matrix->shape()[2]});
  }
  return lora;
}

void row_groups_bench(OpBench& bench, const Block& of) {
  // Which layers have the same input.
  const std::vector<std::vector<std::int64_t>> widths{
      {of.D, of.kv, of.kv}, {of.D}, {of.F, of.F}, {of.D}};
  const DType activations = bench.context().activation_type();
  std::vector<std::vector<Layer>> layers;
  std::uint32_t seed = 1;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    auto& group = layers.emplace_back();
    for (const std::int64_t n : widths[i]) group.emplace_back(of, n, i == 3 ? of.F : of.D, seed++);
  }
  const Bulk of_D({of.rows, of.D}, activations, 40), of_F({of.rows, of.F}, activations, 41);
  bench.tolerance = bench.context().capabilities().rounds_products() ? 0.02 : 1e-3;
  bench.record([&](BufferSet& set) {
    const Tensor table = row_groups(set, bench, of);
    const Tensor x_D = of_D.upload(set), x_F = of_F.upload(set);
    bench.cost = {};
    Tensor y;
    std::uint32_t number = 1;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      std::vector<LoraOutput> outputs;
      for (const Layer& layer : layers[i]) {
        const Tensor w =
            layer.is_quantised ? set.weights(layer.blocks) : layer.w.upload_weights(set);
        y = bulk_output(set, {of.rows, layer.n}, activations);
        outputs.push_back({y,
                           bulk_output(set, {of.rows, of.rank}, activations),
                           {w, {}},
                           lora_of(set, bench, of, layer, number++, table)});
        const Cost cost =
            lora_linear_cost(of.rows, {w, {}}, of.adapters == Adapters::none ? 0 : of.rank);
        bench.cost = {bench.cost.flops + cost.flops, bench.cost.bytes + cost.bytes};
      }
      record_lora_linears(set.batch(), i == 3 ? x_F : x_D, outputs);
    }
    expect_last(set, y, [&] { return layers.back().back().y(of_F.last_row(), of); });
  });
}

void add_block(Block of) {
  for (const auto& [adapters, word] : {std::pair(Adapters::none, "no_adapter"),
                                       {Adapters::one, "one_adapter"},
                                       {Adapters::many, "adapters_8"}}) {
    of.adapters = adapters;
    add_op({.op = "row_groups",
            .type = std::string(name_of(of.type)),
            .shape = {of.rows, of.D, of.F},
            .rank = of.rank,
            .words = {word, "bf16"}},
           Arithmetic::bf16, [of](OpBench& bench) { row_groups_bench(bench, of); });
  }
}

const bool kAdded = add_family([] {
  if (!has(Arithmetic::bf16)) return;
  for (const std::int64_t rows : {8, 64}) {  // SmolLM2-135M
    add_block({DType::q4_1, rows, 576, 192, 1536, 8});
  }
  if (!wants_large()) return;
  for (const std::int64_t rows : {8, 64, 256}) {  // Qwen2.5-0.5B and 7B
    add_block({DType::bf16, rows, 896, 128, 4864, 16});
    add_block({DType::bf16, rows, 3584, 512, 18944, 16});
  }
});

}  // namespace
}  // namespace clora::bench
