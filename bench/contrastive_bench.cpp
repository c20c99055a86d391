// contrastive/fused/f32/BxD: the in-batch contrastive loss of B texts, anchors and positives in
// turn, in vectors of D; contrastive_backward: with its gradient.
#include "clora/ops/loss/contrastive.hpp"

#include <cmath>

#include "bench/support/op_bench.hpp"
#include "tests/reference/contrastive_reference.hpp"

namespace clora::bench {
namespace {

constexpr float kScale = 20;
constexpr float kWeight = 0.5F;

// Text 2i is the anchor of text 2i + 1, which is a candidate.
std::vector<std::int32_t> pairs_of(std::int64_t texts) {
  std::vector<std::int32_t> targets(static_cast<std::size_t>(texts));
  for (std::size_t b = 0; b < targets.size(); ++b) targets[b] = static_cast<std::int32_t>(b | 1U);
  return targets;
}

// Vectors of about length 1.
Operand vectors_of(const Shape& shape) {
  return {shape, 1, std::sqrt(3 / static_cast<float>(shape.last()))};
}

void contrastive(OpBench& bench, const Shape& shape, bool with_gradient) {
  const Operand x = vectors_of(shape);
  const auto targets = pairs_of(shape[0]);
  const auto want = test::contrastive_reference(x.values, targets, kScale, kWeight);
  bench.cost = contrastive_cost(shape, with_gradient);
  bench.tolerance = 1e-5;
  bench.record([&](BufferSet& set) {
    const Tensor loss = set.output({shape[0]});
    const Tensor dx = with_gradient ? set.output(shape) : Tensor();
    record_contrastive_loss(set.batch(), loss, dx,
                            {.x = set.input(x),
                             .targets = set.input({shape[0]}, targets),
                             .weight = set.input({1}, std::vector{kWeight}),
                             .scale = kScale});
    set.expect(loss, [&] { return want.loss; });
    if (with_gradient) set.expect(dx, [&] { return want.dx; });
  });
}

// Batches of 32 and 256 pairs, in the widths of all-MiniLM-L6-v2 and of BERT-base.
const bool kAdded = add_family([] {
  for (const Shape& shape : {Shape{64, 384}, Shape{512, 768}}) {
    add({.op = "contrastive", .shape = shape}, contrastive, shape, false);
    add({.op = "contrastive_backward", .shape = shape}, contrastive, shape, true);
  }
});

}  // namespace
}  // namespace clora::bench
