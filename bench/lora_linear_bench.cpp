// lora_linear/FORM/TYPE/TxNxK/rN: a linear layer with its adapter, fused or unfused;
// lora_linear_backward: its gradients including dx; lora_linear_step: both. Their parts:
// lora_shrink/fused/f32/TxK/rN and lora_gradient.
#include "clora/ops/lora_linear/lora_linear.hpp"

#include "bench/support/op_bench.hpp"
#include "tests/reference/lora_linear_reference.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::bench {
namespace {

enum class Form { fused, unfused };

struct Layer {
  DType type = DType::f32;
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t rank = 0;
};

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

// The layer's values on the host, and the results in double.
struct Numbers {
  Layer layer;
  test::WeightMatrix w;
  Operand a, bt, x, dy;

  explicit Numbers(const Layer& of)
      : layer(of),
        w(test::random_weights(of.type, of.n, of.k, 1)),
        a({of.rank, of.k}, 2),
        bt({of.rank, of.n}, 3),
        x({of.rows, of.k}, 4),
        dy({of.rows, of.n}, 5) {}
  test::LoraLinearReference reference(std::int64_t rows) const {
    return {size(rows), size(layer.n), size(layer.k), size(layer.rank),
            1,          w.values,      a.values,      bt.values};
  }
  // Only the last rows of the largest matrices are compared; a full reference would take minutes.
  static std::vector<double> last_row(const Operand& matrix) {
    return {matrix.values.end() - matrix.shape.last(), matrix.values.end()};
  }
  double error_of_y(std::span<const float> y) const {
    return largest_error(y.last(size(layer.n)), reference(1).forward(last_row(x)));
  }
  double error_of_dx(std::span<const float> dx) const {
    return largest_error(dx.last(size(layer.k)), reference(1).dx(last_row(dy)));
  }
};

struct LayerTensors {
  LinearWeights weights;
  LoraWeights lora;
  Tensor x, s, y;

  LayerTensors(BufferSet& set, const Numbers& numbers)
      : weights{set.weights(numbers.w), {}},
        lora{set.input(numbers.a), set.input(numbers.bt), 1, {}},
        x(set.input(numbers.x)),
        s(set.output({numbers.layer.rows, numbers.layer.rank})),
        y(set.output(numbers.dy.shape)) {}
  void record(Batch& batch, Form form) const {
    const auto record = form == Form::fused ? record_lora_linear : record_lora_linear_unfused;
    record(batch, y, s, x, weights, lora, {});
  }
};

// Records dx and the adapter's gradients as unfused ops.
void record_backward_unfused(Batch& batch, const Tensor& dx, const LoraGradients& gradients,
                             const Tensor& dy, const LayerTensors& t) {
  const Tensor ds = batch.temporary(t.s.shape(), DType::f32, "ds");
  record_lora_shrink(batch, ds, dy, t.lora.bt, t.lora.scale);
  record_gemm_backward(batch, dx, dy, t.weights.w, Accumulate::no);
  record_gemm_backward(batch, dx, ds, t.lora.a, Accumulate::yes);
  record_lora_gradient(batch, gradients.dbt, t.s, dy, t.lora.scale);
  record_lora_gradient(batch, gradients.da, ds, t.x, 1);
}

Cost backward_cost(const Layer& layer, const LinearWeights& weights) {
  Cost cost = lora_linear_cost(layer.rows, weights, layer.rank);
  cost.flops += 2 * static_cast<double>(layer.rows * layer.rank * (layer.n + layer.k));
  return cost;
}

void forward(OpBench& bench, const Layer& layer, Form form) {
  const Numbers numbers(layer);
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const LayerTensors t(set, numbers);
    bench.cost = lora_linear_cost(layer.rows, t.weights, layer.rank);
    t.record(set.batch(), form);
    set.expect_error([&, y = t.y] { return numbers.error_of_y(bench.context().read<float>(y)); });
  });
}

// If only the backward is timed, the forward runs once before.
void backward(OpBench& bench, const Layer& layer, Form form, bool with_forward) {
  const Numbers numbers(layer);
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const LayerTensors t(set, numbers);
    const Tensor dx = set.output(numbers.x.shape), dy = set.input(numbers.dy);
    const LoraGradients gradients{set.zeros(numbers.a.shape), set.zeros(numbers.bt.shape)};
    bench.cost = backward_cost(layer, t.weights);
    if (with_forward) {
      t.record(set.batch(), form);
      const Cost both = lora_linear_cost(layer.rows, t.weights, layer.rank);
      bench.cost = {bench.cost.flops + both.flops, bench.cost.bytes + both.bytes};
    } else {
      Batch before(bench.context());
      t.record(before, form);
      before.submit().wait();
    }
    if (form == Form::fused) {
      record_lora_linear_backward(set.batch(), dx, gradients, dy, {t.x, t.s}, t.weights, t.lora,
                                  Accumulate::no);
    } else {
      record_backward_unfused(set.batch(), dx, gradients, dy, t);
    }
    set.expect_error([&, dx] { return numbers.error_of_dx(bench.context().read<float>(dx)); });
    set.expect(gradients.da, [&] {
      return numbers.reference(layer.rows).da(numbers.dy.values, numbers.x.values);
    });
    set.expect(gradients.dbt, [&] {
      return numbers.reference(layer.rows).dbt(numbers.dy.values, numbers.x.values);
    });
  });
}

Cost part_cost(std::int64_t rows, std::int64_t k, std::int64_t rank) {
  return {2 * static_cast<double>(rows * rank * k),
          4 * static_cast<double>(rows * rank + rows * k + rank * k)};
}

void shrink(OpBench& bench, std::int64_t rows, std::int64_t k, std::int64_t rank) {
  const Operand x({rows, k}, 1), a({rank, k}, 2);
  bench.cost = part_cost(rows, k, rank);
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const Tensor s = set.output({rows, rank});
    record_lora_shrink(set.batch(), s, set.input(x), set.input(a), 1);
    set.expect(s, [&] {
      return test::gemm_reference(x.values, a.values, {size(rows), size(rank), size(k)});
    });
  });
}

void gradient(OpBench& bench, std::int64_t rows, std::int64_t k, std::int64_t rank) {
  const Operand s({rows, rank}, 1), x({rows, k}, 2);
  bench.cost = part_cost(rows, k, rank);
  bench.tolerance = 1e-4;
  bench.record([&](BufferSet& set) {
    const Tensor out = set.zeros({rank, k});
    record_lora_gradient(set.batch(), out, set.input(s), set.input(x), 1);
    set.expect(out, [&] {
      test::LoraLinearReference reference;
      reference.rows = size(rows);
      reference.rank = size(rank);
      return reference.gradient(s.values, x.values, 1);
    });
  });
}

Name name_of(const char* op, Form form, const Layer& layer) {
  return {.op = op,
          .form = form == Form::fused ? "fused" : "unfused",
          .type = std::string(clora::name_of(layer.type)),
          .shape = {layer.rows, layer.n, layer.k},
          .rank = layer.rank};
}

// Cold and warm; the peers' programs use one set of buffers.
void add_forward(const Layer& layer) {
  for (const Form form : {Form::fused, Form::unfused}) {
    const Name name = name_of("lora_linear", form, layer);
    add_both(name, forward, layer, form);
    add_both(name.with("warm"), forward, layer, form);
  }
}

void add_backward(const Layer& layer) {
  for (const Form form : {Form::fused, Form::unfused}) {
    add_both(name_of("lora_linear_backward", form, layer), backward, layer, form, false);
    const Name step = name_of("lora_linear_step", form, layer);
    add_both(step, backward, layer, form, true);
    add_both(step.with("warm"), backward, layer, form, true);
  }
}

const bool kAdded = add_family([] {
  for (const std::int64_t rows : {64, 1}) {
    for (const std::int64_t width : {512, 1024, 2048}) {
      add_forward({DType::f32, rows, width, width, 8});
    }
  }
  for (const std::int64_t width : {512, 1024, 2048, 4096}) {
    add_forward({DType::bf16, 1, width, width, 8});
  }
  for (const std::int64_t rank : {4, 16, 32, 64}) add_forward({DType::f32, 64, 1024, 1024, rank});
  add_backward({DType::f32, 32, 512, 512, 8});
  for (const std::int64_t n : {576, 1536}) {  // the layers of SmolLM2-135M in training
    add_forward({DType::q4_1, 2048, n, 576, 16});
    add_backward({DType::q4_1, 2048, n, 576, 16});
  }
  for (const std::int64_t k : {192, 576, 1536}) {
    for (const std::int64_t rank : {8, 16}) {
      add({.op = "lora_shrink", .shape = {2048, k}, .rank = rank}, shrink, 2048, k, rank);
      add({.op = "lora_gradient", .shape = {2048, k}, .rank = rank}, gradient, 2048, k, rank);
    }
  }
});

}  // namespace
}  // namespace clora::bench
