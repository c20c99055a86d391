// head_loss/fused/bf16/TxVxD/warm/bf16 and head_loss_backward: the heads of Qwen2.5-0.5B and 7B
// fused with the loss, from bf16 activations. Only on GPUs (wants_large()).
#include <cmath>

#include "bench/support/bulk.hpp"
#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/loss/cross_entropy.hpp"
#include "tests/reference/cross_entropy_reference.hpp"

namespace clora::bench {
namespace {

struct Row {
  double loss;
  std::vector<double> dx;
};

// The loss and dx of the last row in double.
Row last_row(const Bulk& x, const Bulk& head, std::int32_t target) {
  const std::vector<double> row = x.last_row();
  std::vector<double> logits(static_cast<std::size_t>(head.shape()[0])), dx(row.size());
  for (std::size_t v = 0; v < logits.size(); ++v) {
    for (std::size_t d = 0; d < row.size(); ++d) logits[v] += row[d] * head.at(v * row.size() + d);
  }
  const auto result = reference::cross_entropy(logits, std::vector{target}, 1.0);
  for (std::size_t v = 0; v < logits.size(); ++v) {
    for (std::size_t d = 0; d < row.size(); ++d) {
      dx[d] += result.dlogits[v] * head.at(v * row.size() + d);
    }
  }
  return {result.loss[0], std::move(dx)};
}

void head_loss(OpBench& bench, const Shape& shape, bool with_gradient) {
  // Logits of standard deviation 2, with losses as of an untrained model.
  const Bulk x({shape[0], shape[2]}, DType::bf16, 1, 6 / std::sqrt(static_cast<float>(shape[2])));
  const Bulk head({shape[1], shape[2]}, DType::bf16, 2);
  std::vector<std::int32_t> targets;
  for (std::int64_t t = 0; t < shape[0]; ++t) {
    targets.push_back(static_cast<std::int32_t>(t * 7919 % shape[1]));
  }
  bench.record([&](BufferSet& set) {
    const HeadLossInputs in{.x = x.upload(set),
                            .head = head.upload_weights(set),
                            .targets = set.input({shape[0]}, targets),
                            .weight = set.input({1}, std::vector{1.0F})};
    const Tensor loss = set.output({shape[0]});
    const Tensor dx = with_gradient ? set.output(x.shape()) : Tensor();
    bench.cost = gemm_cost(shape[0], in.head);
    if (with_gradient) bench.cost = {2 * bench.cost.flops, 2 * bench.cost.bytes};
    record_head_loss(set.batch(), loss, dx, in);
    set.expect_error([&, loss, dx] {
      const Row want = last_row(x, head, targets.back());
      Context& context = bench.context();
      const double error = largest_error(last_of(context, loss, 1), std::vector{want.loss});
      if (!with_gradient) return error;
      return std::max(error, largest_error(last_of(context, dx, want.dx.size()), want.dx));
    });
  });
}

const bool kAdded = add_family([] {
  if (!wants_large() || !has(Arithmetic::bf16)) return;
  for (const Shape& shape : {Shape{8192, 151936, 896}, Shape{4096, 151936, 3584}}) {
    for (const bool gradient : {false, true}) {
      const Name name{.op = gradient ? "head_loss_backward" : "head_loss",
                      .type = "bf16",
                      .shape = shape,
                      .words = {"warm", "bf16"}};
      add_op(name, Arithmetic::bf16, [=](OpBench& bench) { head_loss(bench, shape, gradient); });
    }
  }
});

}  // namespace
}  // namespace clora::bench
