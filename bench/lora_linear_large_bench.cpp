// lora_linear/fused/bf16/TxNxK/rN/warm/queued/bf16 and lora_linear_backward: a linear layer of bf16
// weights with its adapter, for 4096 rows of bf16 activations, or one f32 row as in decoding.
// lora_expand: the forward pass with s = x a^T given. gemm_large_bench.cpp has the plain products
// of the same shapes. Only on GPUs (wants_large()).
#include "bench/support/bulk.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"

namespace clora::bench {
namespace {

struct Layer {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t rank = 0;

  bool is_short() const { return rows == 1; }
  DType activations() const { return is_short() ? DType::f32 : DType::bf16; }
};

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
void add(std::vector<double>& to, double factor, const std::vector<double>& row) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * row[i];
}

struct Numbers {
  Layer layer;
  Bulk w, a, bt, a_bf16, bt_bf16, x, dy, s;

  explicit Numbers(const Layer& of)
      : layer(of),
        w({of.n, of.k}, DType::bf16, 1),
        a({of.rank, of.k}, DType::f32, 2),
        bt({of.rank, of.n}, DType::f32, 3),
        a_bf16(a.shape(), DType::bf16, 2),
        bt_bf16(bt.shape(), DType::bf16, 3),
        x({of.rows, of.k}, of.activations(), 4),
        dy({of.rows, of.n}, of.activations(), 5),
        s({of.rows, of.rank}, of.activations(), 6) {}

  std::vector<double> last_row_of_y() const {
    const std::vector<double> row = x.last_row();
    std::vector<double> shrunk(size(layer.rank));
    for (std::int64_t r = 0; r < layer.rank; ++r) shrunk[size(r)] = dot(row, a.row(r));
    return last_row_of_y(shrunk);
  }
  // The last row of y for a given row of s.
  std::vector<double> last_row_of_y(const std::vector<double>& given) const {
    const std::vector<double> row = x.last_row();
    std::vector<double> y(size(layer.n));
    for (std::int64_t i = 0; i < layer.n; ++i) y[size(i)] = dot(row, w.row(i));
    for (std::int64_t r = 0; r < layer.rank; ++r) add(y, given[size(r)], bt.row(r));
    return y;
  }
  std::vector<double> last_row_of_dx() const {
    const std::vector<double> row = dy.last_row();
    std::vector<double> dx(size(layer.k));
    for (std::int64_t i = 0; i < layer.n; ++i) add(dx, row[size(i)], w.row(i));
    for (std::int64_t r = 0; r < layer.rank; ++r) add(dx, dot(row, bt.row(r)), a.row(r));
    return dx;
  }
  // The last row of the gradient of `factor`: `times` the sum over all rows of (other row .
  // factor's last row) * row.
  std::vector<double> last_row_of_gradient(const Bulk& other, const Bulk& factor, const Bulk& rows,
                                           double times) const {
    const std::vector<double> last = factor.last_row();
    std::vector<double> gradient(size(rows.shape().last()));
    for (std::int64_t t = 0; t < layer.rows; ++t) {
      add(gradient, times * dot(other.row(t), last), rows.row(t));
    }
    return gradient;
  }
};

// The adapter's matrices are in bf16 next to f32, as in a training step.
struct LayerTensors {
  LinearWeights weights;
  LoraWeights lora;
  Tensor x, s, y;

  LayerTensors(BufferSet& set, const Numbers& numbers)
      : weights{numbers.w.upload_weights(set), {}},
        lora{.a = numbers.a.upload(set), .bt = numbers.bt.upload(set)},
        x(numbers.x.upload(set)),
        s(bulk_output(set, numbers.s.shape(), numbers.layer.activations())),
        y(bulk_output(set, numbers.dy.shape(), numbers.layer.activations())) {
    if (numbers.layer.is_short()) return;
    lora.a_bf16 = numbers.a_bf16.upload(set);
    lora.bt_bf16 = numbers.bt_bf16.upload(set);
  }
  void record(Batch& batch) const { record_lora_linear(batch, y, s, x, weights, lora); }
};

// The cost declared for f32 activations, corrected for the types used here.
Cost cost_of(const Layer& layer, const LayerTensors& t) {
  Cost cost = lora_linear_cost(layer.rows, t.weights, layer.rank);
  cost.bytes = static_cast<double>(t.weights.w.bytes() + t.x.bytes() + t.y.bytes());
  return cost;
}

void forward(OpBench& bench, const Layer& layer) {
  const Numbers numbers(layer);
  bench.repeats = OpBench::kQueued;
  bench.record([&](BufferSet& set) {
    const LayerTensors t(set, numbers);
    bench.cost = cost_of(layer, t);
    for (std::size_t i = 0; i < bench.repeats; ++i) t.record(set.batch());
    expect_last(set, t.y, [&] { return numbers.last_row_of_y(); });
  });
}

void expand(OpBench& bench, const Layer& layer) {
  const Numbers numbers(layer);
  bench.repeats = OpBench::kQueued;
  bench.record([&](BufferSet& set) {
    const LayerTensors t(set, numbers);
    const Tensor s = numbers.s.upload(set);
    const Epilogue epilogue{.low_rank = {.s = s, .u = t.lora.bt, .u_bf16 = t.lora.bt_bf16}};
    bench.cost = cost_of(layer, t);
    bench.cost.flops -= 2 * static_cast<double>(layer.rows * layer.rank * layer.k);
    for (std::size_t i = 0; i < bench.repeats; ++i) {
      record_gemm(set.batch(), t.y, t.x, t.weights.w, epilogue);
    }
    expect_last(set, t.y, [&] { return numbers.last_row_of_y(numbers.s.last_row()); });
  });
}

// The forward pass runs once, before timing. Deferred gradients join the next layer's launch, as in
// a model's backward pass.
void backward(OpBench& bench, const Layer& layer) {
  const Numbers numbers(layer);
  bench.repeats = OpBench::kQueued;
  const auto times = static_cast<double>(bench.repeats);  // gradients accumulate
  bench.record([&](BufferSet& set) {
    const LayerTensors t(set, numbers);
    const Tensor dy = numbers.dy.upload(set), dx = bulk_output(set, t.x.shape(), t.x.type());
    const LoraGradients gradients{set.zeros(t.lora.a.shape()), set.zeros(t.lora.bt.shape())};
    bench.cost = cost_of(layer, t);
    bench.cost.flops += 2 * static_cast<double>(layer.rows * layer.rank * (layer.n + layer.k));
    bench.cost.bytes += static_cast<double>(t.x.bytes());
    Batch before(bench.context());
    t.record(before);
    before.submit().wait();
    const LoraBranch layer_of{gradients, dy, t.s, t.weights, t.lora};
    DeferredGradients deferred;
    for (std::size_t i = 0; i < bench.repeats; ++i) {
      const std::vector<PendingGradient> pending =
          record_lora_linears_dx(set.batch(), dx, {&layer_of, 1}, Accumulate::no, deferred);
      record_lora_linears_da(set.batch(), t.x, pending, deferred);
    }
    deferred.flush(set.batch());
    expect_last(set, dx, [&] { return numbers.last_row_of_dx(); });
    expect_last(set, gradients.da, [&] {
      return numbers.last_row_of_gradient(numbers.dy, numbers.bt, numbers.x, times);
    });
    expect_last(set, gradients.dbt, [&] {
      return numbers.last_row_of_gradient(numbers.x, numbers.a, numbers.dy, times);
    });
  });
}

void add_layer(const char* op, void (*prepare)(OpBench&, const Layer&), const Layer& layer) {
  const Name name{.op = op,
                  .type = "bf16",
                  .shape = {layer.rows, layer.n, layer.k},
                  .rank = layer.rank,
                  .words = {"warm", "queued", "bf16"}};
  add_op(name, Arithmetic::bf16, [=](OpBench& bench) { prepare(bench, layer); });
}

const bool kAdded = add_family([] {
  if (!wants_large() || !has(Arithmetic::bf16)) return;
  for (const std::int64_t width : {1024, 2048, 4096}) {
    for (const std::int64_t rank : {8, 16, 64}) {
      add_layer("lora_linear", forward, {4096, width, width, rank});
      add_layer("lora_expand", expand, {4096, width, width, rank});
      add_layer("lora_linear_backward", backward, {4096, width, width, rank});
    }
  }
  for (const std::int64_t width : {512, 1024, 2048, 4096}) {
    add_layer("lora_linear", forward, {1, width, width, 8});
  }
});

}  // namespace
}  // namespace clora::bench
