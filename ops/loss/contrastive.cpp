#include "clora/ops/loss/contrastive.hpp"

#include <cmath>

#include "ops/launch_grids.hpp"
#include "ops/tensor_overlap.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kFile = "contrastive.cl";
constexpr std::size_t kGroup = 64;
constexpr std::int64_t kMaxTexts = 1 << 15;  // GPUs support 65535 groups in the second dimension

void require_inputs(const ContrastiveInputs& in) {
  require(!in.x.empty() && in.x.shape().rank() == 2 && in.x.elements() > 0,
          "contrastive loss: x must be f32 [B, D], got {}", in.x.empty() ? "nothing" : in.x.text());
  const std::int64_t B = in.x.shape()[0];
  require(B <= kMaxTexts, "contrastive loss: at most {} texts are supported, got {}", kMaxTexts, B);
  require_tensor("contrastive loss", "x", in.x, in.x.shape());
  require_tensor("contrastive loss", "targets", in.targets, {B}, DType::i32);
  require(std::isfinite(in.scale) && in.scale > 0,
          "contrastive loss: the scale must be above 0, got {}", in.scale);
}

}  // namespace

Cost contrastive_cost(const Shape& x, bool has_gradient) {
  const auto B = static_cast<double>(x[0]), D = static_cast<double>(x[1]);
  return {(has_gradient ? 6 : 2) * B * B * D, 4 * B * ((has_gradient ? 2 : 1) * D + B)};
}

void record_contrastive_loss(Batch& batch, const Tensor& loss, const Tensor& dx,
                             const ContrastiveInputs& in) {
  require_inputs(in);
  const std::int64_t B = in.x.shape()[0], D = in.x.shape()[1];
  require_tensor("contrastive loss", "loss", loss, {B});
  const bool has_gradient = !dx.empty();
  if (has_gradient) {
    require_tensor("contrastive loss", "dx", dx, in.x.shape());
    require_tensor("contrastive loss", "weight", in.weight, {1});
    require(!overlap(dx, in.x), "contrastive loss: dx must not alias x");
  }
  const Tensor w = batch.temporary({B, B}, DType::f32, "contrastive weights");
  const std::size_t group = reduction_group(batch.context().device(), kGroup);
  Defines defines;
  defines.set("GROUP", static_cast<std::int64_t>(group));
  const auto texts = static_cast<std::size_t>(B);
  // Without a gradient the weights are not read, whatever their factor.
  batch.launch(
      {batch.context().kernel(kFile, "contrastive_scores", defines), groups_of(group, texts),
       contrastive_cost(in.x.shape(), has_gradient), "contrastive/loss"},
      loss, w, in.x, in.targets, has_gradient ? in.weight : in.x, in.scale, i32(B), i32(D));
  if (!has_gradient) return;
  batch.launch({batch.context().kernel(kFile, "contrastive_gradient", defines),
                {{static_cast<std::size_t>(round_up(D, kGroup)), texts, 1}, {kGroup, 1, 1}},
                {},
                "contrastive/gradient"},
               dx, w, in.x, i32(B), i32(D));
}

}  // namespace clora
