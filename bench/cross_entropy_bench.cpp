// cross_entropy_backward/fused/f32/TxV: loss and gradient of a chunk of logits; cross_entropy: the
// loss alone; head_loss/FORM/TYPE/TxVxD and head_loss_backward: the head of SmolLM2-135M fused with
// them in chunks, or unfused with products over all rows.
#include "clora/ops/loss/cross_entropy.hpp"

#include <cmath>

#include "bench/support/op_bench.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "tests/reference/cross_entropy_reference.hpp"
#include "tests/reference/quant_reference.hpp"

namespace clora::bench {
namespace {

std::vector<std::int32_t> targets_of(std::int64_t rows, std::int64_t vocabulary) {
  std::vector<std::int32_t> targets(static_cast<std::size_t>(rows));
  for (std::size_t t = 0; t < targets.size(); ++t) {
    targets[t] = static_cast<std::int32_t>(static_cast<std::int64_t>(t) * 7919 % vocabulary);
  }
  return targets;
}

void cross_entropy(OpBench& bench, const Shape& shape, bool with_gradient) {
  const Operand logits(shape, 1);
  const auto targets = targets_of(shape[0], shape[1]);
  const auto want = reference::cross_entropy(logits.values, targets, 0.5);
  bench.cost = cross_entropy_cost(shape);
  if (!with_gradient) bench.cost.bytes /= 2;  // the gradient is not written
  bench.tolerance = 2e-6;
  bench.record([&](BufferSet& set) {
    const Tensor loss = set.output({shape[0]});
    const Tensor dlogits = with_gradient ? set.output(shape) : Tensor();
    record_cross_entropy(
        set.batch(), loss, dlogits,
        {set.input(logits), set.input({shape[0]}, targets), set.input({1}, std::vector{0.5F})});
    set.expect(loss, [&] { return want.loss; });
    if (with_gradient) set.expect(dlogits, [&] { return want.dlogits; });
  });
}

// The loss and dx of row t in double; a reference for all rows would take minutes.
struct Row {
  double loss;
  std::vector<double> dx;
};
Row reference_row(std::int64_t t, const Operand& x, std::span<const double> head,
                  std::int32_t target) {
  const auto width = static_cast<std::size_t>(x.shape.last());
  const std::span row = std::span(x.values).subspan(static_cast<std::size_t>(t) * width, width);
  std::vector<double> logits(head.size() / width), dx(width);
  for (std::size_t v = 0; v < logits.size(); ++v) {
    for (std::size_t d = 0; d < width; ++d) logits[v] += row[d] * head[v * width + d];
  }
  const auto result = reference::cross_entropy(logits, std::vector{target}, 1.0);
  for (std::size_t v = 0; v < logits.size(); ++v) {
    for (std::size_t d = 0; d < width; ++d) dx[d] += result.dlogits[v] * head[v * width + d];
  }
  return {result.loss[0], std::move(dx)};
}

using RecordHeadLoss = void (*)(Batch&, const Tensor& loss, const Tensor& dx,
                                const HeadLossInputs&);

// Records the products and cross_entropy over the full [T, V] at once.
void record_head_loss_unfused(Batch& batch, const Tensor& loss, const Tensor& dx,
                              const HeadLossInputs& in) {
  const Tensor logits =
      batch.temporary({in.x.shape()[0], in.head.shape()[0]}, DType::f32, "logits");
  record_gemm(batch, logits, in.x, in.head);
  const Tensor dlogits = dx.empty() ? Tensor() : logits;
  record_cross_entropy(batch, loss, dlogits, {logits, in.targets, in.weight});
  if (!dx.empty()) record_gemm_backward(batch, dx, dlogits, in.head, Accumulate::no);
}

void head_loss(OpBench& bench, RecordHeadLoss record, DType type, const Shape& shape,
               bool with_gradient) {
  const std::int64_t rows = shape[0];
  // Logits of standard deviation 2, with losses as of an untrained model.
  const Operand x({rows, shape[2]}, 1, 6 / std::sqrt(static_cast<float>(shape[2])));
  const auto head = test::random_weights(type, shape[1], shape[2], 2);
  const auto targets = targets_of(rows, shape[1]);
  bench.tolerance = 1e-5;
  bench.record([&](BufferSet& set) {
    const HeadLossInputs in{.x = set.input(x),
                            .head = set.weights(head),
                            .targets = set.input({rows}, targets),
                            .weight = set.input({1}, std::vector{1.0F})};
    const Tensor loss = set.output({rows});
    const Tensor dx = with_gradient ? set.output(x.shape) : Tensor();
    bench.cost = gemm_cost(rows, in.head);
    if (with_gradient) bench.cost = {2 * bench.cost.flops, 2 * bench.cost.bytes};
    record(set.batch(), loss, dx, in);
    set.expect_error([&, loss, dx] {
      const Row want = reference_row(rows - 1, x, head.values, targets.back());
      const auto losses = bench.context().read<float>(loss);
      const double error = largest_error(std::span(losses).last(1), std::vector{want.loss});
      if (!with_gradient) return error;
      const auto gradients = bench.context().read<float>(dx);
      return std::max(error, largest_error(std::span(gradients).last(want.dx.size()), want.dx));
    });
  });
}

const bool kAdded = add_family([] {
  const Shape chunk{512, 49152}, head{2048, 49152, 576};
  add({.op = "cross_entropy", .shape = chunk}, cross_entropy, chunk, false);
  add({.op = "cross_entropy_backward", .shape = chunk}, cross_entropy, chunk, true);
  for (const auto& [form, record] :
       {std::pair<const char*, RecordHeadLoss>{"fused", record_head_loss},
        {"unfused", record_head_loss_unfused}}) {
    add_both({.op = "head_loss", .form = form, .type = "q8_0", .shape = head}, head_loss, record,
             DType::q8_0, head, false);
    add_both({.op = "head_loss_backward", .form = form, .type = "q8_0", .shape = head}, head_loss,
             record, DType::q8_0, head, true);
  }
});

}  // namespace
}  // namespace clora::bench
