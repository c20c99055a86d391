// grouped_gemm/TYPE/TxNxK/expertsUofX: the products of T rows with the matrices [N, K] of their U
// of X experts; grouped_gemm_backward: the same with the transposed matrices. gemm/.../dense is the
// product of T U rows with one such matrix, which has as many flops, in the same run: the ratio of
// the two is what grouping costs. Products of few rows are measured by their share of the peak of
// memory. router/TxX/expertsUofX: the choice of experts and the plan.
#include <fmt/format.h>

#include "bench/support/bulk.hpp"
#include "bench/support/op_bench.hpp"
#include "clora/ops/experts/grouped_gemm.hpp"
#include "tests/reference/experts_reference.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::bench {
namespace {

struct Layer {
  RoutingSize size;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType type = DType::bf16;
  bool backward = false;

  std::int64_t outputs() const { return backward ? k : n; }
  std::int64_t inputs() const { return backward ? n : k; }
};

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

// Enough for any number of experts, from the numbers of one.
test::WeightMatrix repeated(const test::WeightMatrix& one, std::int64_t experts) {
  test::WeightMatrix all = one;
  all.rows *= experts;
  for (std::int64_t i = 1; i < experts; ++i) {
    all.bytes.insert(all.bytes.end(), one.bytes.begin(), one.bytes.end());
  }
  return all;
}

// The error of row `row` of y, from x and the matrix that all experts have.
double error_of_row(std::span<const float> y, const Operand& x, const test::WeightMatrix& w,
                    const Layer& layer, std::size_t row, std::size_t x_row) {
  const std::size_t width = size(layer.outputs()), inputs = size(layer.inputs());
  const std::span<const double> values(x.values);
  return largest_error(
      y.subspan(row * width, width),
      reference::product_of_row(values.subspan(x_row * inputs, inputs), w.values, layer.backward));
}

Routing routing_of(Context& context, const RoutingSize& size) {
  return make_routing(size, [&](Shape shape, DType type, std::string_view) {
    return context.allocate(shape, type, MemoryTag::scratch);
  });
}

Tensor logits_of(BufferSet& set, const RoutingSize& size) {
  return set.input(Operand({size.rows, size.experts}, 3));
}

void record_products(OpBench& bench, BufferSet& set, const Layer& layer, const Operand& x,
                     const test::WeightMatrix& w) {
  Context& context = bench.context();
  const Routing routing = routing_of(context, layer.size);
  {
    Batch batch(context);  // once: the products are measured alone
    record_router(batch, routing, logits_of(set, layer.size), RouterWeights::normalised);
    batch.submit().wait();
  }
  const ExpertPlan& plan = routing.plan;
  const Tensor inputs = set.input(x);
  const ExpertMatrices matrices{set.weights(repeated(w, layer.size.experts))};
  const Tensor y = set.output({plan.slot_count(), layer.outputs()});
  bench.cost = grouped_gemm_cost(plan, matrices);
  if (layer.backward) {
    record_grouped_gemm_backward(set.batch(), y, inputs, matrices, plan, Accumulate::no);
  } else {
    record_grouped_gemm(set.batch(), y, inputs, ExpertRows::of_entries, matrices, plan);
  }
  set.expect_error([&bench, &x, &w, layer, y, plan] {
    const auto entries = bench.context().read<std::int32_t>(plan.entries);
    const std::size_t row = size(entries.front()) / size(plan.experts_of_row());
    return error_of_row(bench.context().read<float>(y), x, w, layer, 0, layer.backward ? 0 : row);
  });
}

void grouped(OpBench& bench, const Layer& layer) {
  const test::WeightMatrix w = test::random_weights(layer.type, layer.n, layer.k, 1);
  const Routing routing = routing_of(bench.context(), layer.size);
  const Operand x({layer.backward ? routing.plan.slot_count() : layer.size.rows, layer.inputs()},
                  4);
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) { record_products(bench, set, layer, x, w); });
}

void dense(OpBench& bench, const Layer& layer) {
  const std::int64_t rows = layer.size.rows * layer.size.used;
  const test::WeightMatrix w = test::random_weights(layer.type, layer.n, layer.k, 1);
  const Operand x({rows, layer.inputs()}, 4);
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const Tensor inputs = set.input(x), weights = set.weights(w);
    const Tensor y = set.output({rows, layer.outputs()});
    bench.cost = gemm_cost(rows, weights);
    if (layer.backward) {
      record_gemm_backward(set.batch(), y, inputs, weights, Accumulate::no);
    } else {
      record_gemm(set.batch(), y, inputs, weights);
    }
    set.expect_error([&, y] {
      return error_of_row(bench.context().read<float>(y), x, w, layer, size(rows - 1),
                          size(rows - 1));
    });
  });
}

void router(OpBench& bench, const RoutingSize& routing_size) {
  const Operand logits({routing_size.rows, routing_size.experts}, 3);
  bench.cost = router_cost(routing_size);
  bench.record([&](BufferSet& set) {
    const Routing routing = routing_of(bench.context(), routing_size);
    record_router(set.batch(), routing, set.input(logits), RouterWeights::normalised);
    set.expect(set.keep(routing.weights), [&] {
      std::vector<double> weights;
      for (std::size_t at = 0; at < logits.values.size(); at += size(routing_size.experts)) {
        const auto row = std::span(logits.values).subspan(at, size(routing_size.experts));
        const auto routed = reference::route_row(row, size(routing_size.used), true);
        weights.insert(weights.end(), routed.weights.begin(), routed.weights.end());
      }
      return weights;
    });
  });
}

void add_layer(Layer layer) {
  const auto& [rows, experts, used] = layer.size;
  for (const bool backward : {false, true}) {
    layer.backward = backward;
    const std::string suffix = backward ? "_backward" : "";
    const Name name{.op = "grouped_gemm" + suffix,
                    .type = std::string(name_of(layer.type)),
                    .shape = {rows, layer.n, layer.k},
                    .words = {fmt::format("experts{}of{}", used, experts), "warm"}};
    add_both(name, grouped, layer);
    Name of_dense = name;
    of_dense.op = "gemm" + suffix;
    of_dense.shape = {rows * used, layer.n, layer.k};
    of_dense.words = {"dense", "warm"};
    add_both(of_dense, dense, layer);
  }
}

// 8 of 64 experts, of Qwen3-MoE's widths for GPUs.
const bool kAdded = add_family([] {
  add_layer({.size = {256, 64, 8}, .n = 128, .k = 256});
  add_layer({.size = {1, 64, 8}, .n = 128, .k = 256});
  add_layer({.size = {4, 64, 8}, .n = 128, .k = 256});
  add({.op = "router", .shape = {512, 64}, .words = {"experts8of64"}}, router,
      RoutingSize{512, 64, 8});
  if (!wants_large()) return;
  for (const std::int64_t rows : {4096, 1}) {
    add_layer({.size = {rows, 64, 8}, .n = 768, .k = 2048});
    add_layer({.size = {rows, 64, 8}, .n = 2048, .k = 768});
  }
  for (const DType type : {DType::f16, DType::q8_0, DType::q4_k}) {  // few rows, as stored
    add_layer({.size = {1, 64, 8}, .n = 768, .k = 2048, .type = type});
  }
  for (const std::int64_t rows : {4, 16}) add_layer({.size = {rows, 64, 8}, .n = 768, .k = 2048});
});

}  // namespace
}  // namespace clora::bench
