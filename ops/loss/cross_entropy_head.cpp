// record_head_loss, and its portable implementation: lora_linear and cross_entropy by chunks of
// rows.
#include <algorithm>

#include "clora/ops/loss/cross_entropy.hpp"
#include "ops/activations.hpp"
#include "ops/dispatch/loss_term_defines.hpp"
#include "ops/dispatch/soft_cap_define.hpp"
#include "ops/lora_linear/weight_gradient.hpp"
#include "ops/loss/cross_entropy_head_dispatch.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kOp = "head_loss";
// More than a model has linear layers, so that every chunk of rows has its own dropout masks.
constexpr std::uint32_t kSitesOfChunk = 1U << 16U;

// Rows of one chunk. Chunks begin at views of loss and targets, 4 bytes per row, so they are
// multiples of the device's alignment; only a single chunk of all rows may have any size.
std::int64_t chunk_rows(const Device& device, std::int64_t rows, std::int64_t vocabulary,
                        std::int64_t wanted) {
  // Large enough to amortise reading the head once per chunk, small compared with the model.
  const std::int64_t logits_bytes = (device.kind == DeviceKind::gpu ? 256 : 100) << 20;
  const auto allocation = static_cast<std::int64_t>(device.max_allocation_bytes);
  const std::int64_t step = std::max<std::int64_t>(device.base_alignment_bytes / 4, 1);
  const std::int64_t row_bytes = 4 * vocabulary;
  const std::int64_t fitting = std::max(allocation / row_bytes / step, std::int64_t{1}) * step;
  std::int64_t chunk = wanted;
  if (chunk == 0) chunk = std::max<std::int64_t>(logits_bytes / row_bytes, 1);
  chunk = std::min(round_up(chunk, step), fitting);
  return std::min(chunk, rows);
}

LossTerms terms_of_rows(LossTerms terms, std::int64_t begin, std::int64_t count) {
  if (terms.any()) terms.nll = terms.nll.rows(begin, count);
  return terms;
}

void check(const Tensor& loss, const Tensor& dx, const HeadLossInputs& inputs) {
  const auto matrix = [](std::string_view name, const auto& t) {
    require(!t.empty() && t.shape().rank() == 2 && t.elements() > 0,
            "{}: {} must be a matrix with at least one element, got {}", kOp, name,
            t.empty() ? "nothing" : t.text());
  };
  matrix("x", inputs.x);
  matrix("head", inputs.head);
  const std::int64_t rows = inputs.x.shape()[0];
  const std::int64_t width = inputs.x.shape()[1];
  require_any_activation(kOp, "x", inputs.x, inputs.x.shape());
  require(inputs.head.shape()[1] == width, "{}: head must be [V, {}] to match x {}, got {}", kOp,
          width, inputs.x.text(), inputs.head.text());
  require_tensor(kOp, "loss", loss, {rows});
  require_tensor(kOp, "targets", inputs.targets, {rows}, DType::i32);
  if (!dx.empty()) {
    require_tensor(kOp, "dx", dx, inputs.x.shape());
    (void)loss_weight_step(kOp, inputs.weight, rows);
    const Tensor& dhead = inputs.adapter.dhead;
    if (!dhead.empty()) require_tensor(kOp, "adapter.dhead", dhead, inputs.head.shape());
    require(dx.storage() != inputs.x.storage() || dx.offset_bytes() != inputs.x.offset_bytes(),
            "{}: dx must not be x", kOp);
  }
  require_soft_cap(kOp, inputs.soft_cap);
  require_loss_terms(kOp, inputs.terms, !dx.empty(), rows);
  require(inputs.rows_per_chunk >= 0, "{}: rows_per_chunk must be 0 (automatic) or more, got {}",
          kOp, inputs.rows_per_chunk);
  require(inputs.entries_per_chunk >= 0,
          "{}: entries_per_chunk must be 0 (automatic) or more, got {}", kOp,
          inputs.entries_per_chunk);
}

}  // namespace

void record_head_loss(Batch& batch, const Tensor& loss, const Tensor& dx,
                      const HeadLossInputs& inputs) {
  check(loss, dx, inputs);
  const HeadLoss head{loss, dx, inputs};
  const HeadAdapter& adapter = inputs.adapter;
  const bool by_rows = head.wants_gradient() ? !adapter.empty() : !adapter.lora.empty();
  if (by_rows) return record_head_loss_by_rows(batch, head);
  choose_head_loss(batch.context(), head).record(batch, head);
}

void record_head_loss_by_rows(Batch& batch, const HeadLoss& head) {
  const auto& [loss, dx, inputs] = head;
  const std::int64_t rows = inputs.x.shape()[0];
  const std::int64_t vocabulary = inputs.head.shape()[0];
  const std::int64_t chunk =
      chunk_rows(batch.context().device(), rows, vocabulary, inputs.rows_per_chunk);
  const Tensor chunk_logits = batch.temporary({chunk, vocabulary}, DType::f32, "head_loss logits");
  const LinearWeights weights{inputs.head, {}};
  LoraWeights lora = inputs.adapter.lora;
  Tensor chunk_s;
  if (!lora.empty()) chunk_s = batch.temporary({chunk, lora.rank()}, DType::f32, "head_loss s");
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t count = std::min(chunk, rows - begin);
    const Tensor logits = chunk_logits.rows(0, count);
    const Tensor targets = inputs.targets.rows(begin, count);
    const Tensor x = inputs.x.rows(begin, count);
    const Tensor s = lora.empty() ? Tensor() : chunk_s.rows(0, count);
    lora.dropout.site = inputs.adapter.lora.dropout.site + u32(begin / chunk) * kSitesOfChunk;
    record_lora_linear(batch, logits, s, x, weights, lora);
    if (dx.empty()) {
      record_cross_entropy(batch, loss.rows(begin, count), {},
                           {.logits = logits, .targets = targets, .soft_cap = inputs.soft_cap});
      continue;
    }
    record_cross_entropy(batch, loss.rows(begin, count), logits,
                         {.logits = logits,
                          .targets = targets,
                          .weight = loss_weight_step(kOp, inputs.weight, rows) == 0
                                        ? inputs.weight
                                        : inputs.weight.rows(begin, count),
                          .soft_cap = inputs.soft_cap,
                          .terms = terms_of_rows(inputs.terms, begin, count)});
    record_lora_linear_backward(batch, dx.rows(begin, count), inputs.adapter.gradients, logits,
                                {x, s}, weights, lora, Accumulate::no);
    if (!inputs.adapter.dhead.empty()) {
      record_weight_gradient(batch, inputs.adapter.dhead, logits, x);
    }
  }
}

}  // namespace clora
