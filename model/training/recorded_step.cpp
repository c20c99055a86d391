#include "clora/model/training/recorded_step.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "clora/ops/loss/contrastive.hpp"
#include "model/embedding/text_vectors.hpp"
#include "model/transformer/adapted_ends.hpp"
#include "model/transformer/recorded_model.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxRecorded = 24;

RowsOf rows_of(const StepTask& task) {
  if (task.contrastive) return RowsOf::texts;
  return task.preference ? RowsOf::answers : RowsOf::documents;
}

}  // namespace

RecordedStep::RecordedStep(LanguageModel& model, const Adapter* adapter, const StepTask& task,
                           RowCounts counts, const StepResults& results,
                           std::shared_ptr<Arena> arena, double attended,
                           const ColumnScales* scales)
    : model_(&model),
      adapter_(adapter),
      task_(task),
      attended_(attended),
      scales_(scales),
      inputs_(model.context(), counts.rows, counts.labelled, rows_of(task), counts.attending),
      batch_(model.context(), std::move(arena)) {
  require(!trains() || adapter != nullptr, "recorded step: training needs an adapter");
  require(model.is_whole() || rows_of(task) == RowsOf::documents,
          "recorded step: a model that is split by layers has the loss of the next token only");
  const Shape stream{counts.rows, model.config().hidden_size};
  if (!model.is_first()) {
    stream_in_ = model.context().allocate(stream, DType::f32, MemoryTag::activations);
  }
  if (!model.is_last()) {
    stream_out_ = model.context().allocate(stream, DType::f32, MemoryTag::activations);
  }
  record(results);
  batch_.seal();
}

RecordingOptions RecordedStep::options(const StepResults& results) const {
  return {.rows = {.positions = inputs_.positions(),
                   .first = inputs_.first(),
                   .last = inputs_.last(),
                   .keys_per_row = attended_,
                   .shared = inputs_.shared()},
          .positions = inputs_.rows(),
          .type = model_->context().activation_type(),
          .adapter = adapter_,
          .column_scales = scales_,
          .trains = trains(),
          .seed_and_step = inputs_.seed_and_step(),
          .embedding_noise = task_.supervised.neftune_alpha > 0 ? inputs_.noise() : Tensor(),
          .balance = results.balance_loss.empty() ? Tensor() : inputs_.balance(),
          .policy = task_.policy,
          .marks_gradients = task_.marks_gradients,
          .casts_adapter = true};
}

Tensor RecordedStep::record_loss(const Tensor& output, const Tensor& loss, const Tensor& weight,
                                 const LossTerms& terms) {
  Tensor doutput;
  if (trains() && !weight.empty()) {
    doutput = batch_.temporary(output.shape(), DType::f32, "d selected rows");
  }
  record_head_loss(
      batch_, loss, doutput,
      {.x = output,
       .head = head_of(*model_, adapter_),
       .targets = inputs_.targets(),
       .weight = weight,
       .soft_cap = static_cast<float>(model_->config().logit_soft_cap),
       .terms = terms,
       .adapter = head_adapter_of(adapter_, trains() ? inputs_.seed_and_step() : Tensor())});
  return doutput;
}

void RecordedStep::record(const StepResults& results) {
  const TraceSpan span(model_->context().trace(), "record",
                       trains() ? "training step" : "evaluation step");
  Recording recording(*model_, batch_, options(results));
  if (task_.contrastive) return record_contrastive(recording, results);
  if (task_.preference) return record_answers(recording, results);
  record_next_token(recording, results);
}

// Only labelled rows go through the head: the products of the others would be wasted.
void RecordedStep::record_next_token(Recording& recording, const StepResults& results) {
  RecordedModel model(recording, {.ids = inputs_.ids(),
                                  .stream = stream_in_,
                                  .selected = inputs_.labelled(),
                                  .output_type = model_->context().activation_type()});
  Tensor doutput = stream_out_;
  if (model_->is_last()) {
    doutput = record_loss_of_tokens(model.output(), results);
  } else {
    batch_.copy(stream_out_, model.output());
  }
  recording.record_balance_loss(results.balance_loss);
  if (!results.settings.empty()) batch_.copy(results.settings, inputs_.settings());
  if (!trains()) return;
  if (!model_->is_whole()) batch_.pause();
  model.record_backward(doutput, model_->is_last() ? inputs_.place() : Tensor());
  gradient_parts_ = model.gradient_parts();
}

Tensor RecordedStep::record_loss_of_tokens(const Tensor& output, const StepResults& results) {
  const Shape count{inputs_.labelled_rows()};
  const Tensor loss = batch_.temporary(count, DType::f32, "loss");
  LossTerms terms{static_cast<float>(task_.supervised.label_smoothing),
                  static_cast<float>(task_.supervised.z_loss)};
  if (terms.any()) terms.nll = batch_.temporary(count, DType::f32, "loss without its terms");
  const Tensor doutput = record_loss(output, loss, inputs_.weights(), terms);
  if (trains()) {
    record_dot(batch_, results.loss_sum, loss, inputs_.weights());
    if (terms.any()) record_dot(batch_, results.nll_sum, terms.nll, inputs_.weights());
  } else {
    record_sum(batch_, results.loss_sum, loss, true);
  }
  return doutput;
}

// The preference loss, which depends on all rows of an answer, gives the factors of the rows' own
// losses. With a frozen head the gradients of these losses come first, with the forward, and are
// multiplied by the factors; those of a head that is trained are sums over rows, and therefore need
// a second pass over the head, with the factors as weights (and the same dropout).
void RecordedStep::record_answers(Recording& recording, const StepResults& results) {
  RecordedModel model(recording, {.ids = inputs_.ids(),
                                  .selected = inputs_.labelled(),
                                  .output_type = model_->context().activation_type()});
  const Shape count{inputs_.labelled_rows()};
  const Tensor loss = batch_.temporary(count, DType::f32, "loss");
  const bool trains_head = trains() && !head_adapter_of(adapter_, inputs_.seed_and_step()).empty();
  Tensor doutput = record_loss(model.output(), loss, trains_head ? Tensor() : inputs_.weight());
  const Tensor logps = batch_.temporary(count, DType::f32, "log-probabilities of answers");
  record_answer_logps(batch_, logps, loss, inputs_.texts());
  if (!results.preference_sums.empty()) {
    const Tensor factors =
        trains() ? batch_.temporary(count, DType::f32, "factors of rows") : Tensor();
    record_preference_loss(batch_, results.preference_sums, factors, logps,
                           {.loss = loss,
                            .answers = inputs_.texts(),
                            .answer = inputs_.answer(),
                            .reference = inputs_.reference(),
                            .label = inputs_.label(),
                            .weights = inputs_.answer_weights(),
                            .kl = results.kl,
                            .nll = task_.preference->has_nll()},
                           task_.preference->formula);
    if (trains_head) {
      doutput = record_loss(model.output(), loss, factors);
    } else if (trains()) {
      record_scaled_rows(batch_, doutput, factors);
    }
  } else if (!results.kl.empty()) {
    record_kl_sums(batch_, results.kl, logps, inputs_.texts(), inputs_.reference());
  } else {
    const std::int64_t answers = std::min(count[0], results.answer_logps.elements());
    batch_.copy(results.answer_logps.rows(0, answers), logps.rows(0, answers));
  }
  recording.record_balance_loss(results.balance_loss);
  if (!results.settings.empty()) batch_.copy(results.settings, inputs_.settings());
  if (!trains()) return;
  model.record_backward(doutput, inputs_.place());
  gradient_parts_ = model.gradient_parts();
}

void RecordedStep::record_contrastive(Recording& recording, const StepResults& results) {
  TextVectors texts(recording, inputs_,
                    {.pooling = task_.contrastive->pooling, .normalises = true});
  const Tensor loss = batch_.temporary({inputs_.labelled_rows()}, DType::f32, "loss");
  const Tensor dvectors =
      trains() ? batch_.temporary(texts.vectors().shape(), DType::f32, "d vectors") : Tensor();
  record_contrastive_loss(batch_, loss, dvectors,
                          {.x = texts.vectors(),
                           .targets = inputs_.targets(),
                           .weight = inputs_.weight(),
                           .scale = static_cast<float>(task_.contrastive->scale)});
  record_sum(batch_, results.loss_sum, loss, true);
  if (!results.settings.empty()) batch_.copy(results.settings, inputs_.settings());
  if (trains()) texts.record_backward(dvectors);
}

RowCounts recorded_row_counts(std::size_t rows, std::size_t labelled, DeviceKind device,
                              std::size_t attending) {
  const bool fine = device == DeviceKind::cpu;
  const auto rounded = [fine](std::size_t count) {
    const std::size_t least = std::max<std::size_t>(count, 1);
    const std::size_t step =
        std::max<std::size_t>(fine ? 16 : 64, std::bit_floor(least) / (fine ? 16 : 8));
    return static_cast<std::int64_t>(round_up(least, step));
  };
  return {rounded(rows), std::min(rounded(rows), rounded(labelled)),
          attending > 0 ? rounded(attending) : 0};
}

RecordedSteps::RecordedSteps(LanguageModel& model, const Adapter* adapter, const StepTask& task,
                             StepResults results, std::shared_ptr<Arena> arena)
    : model_(&model),
      adapter_(adapter),
      task_(task),
      results_(std::move(results)),
      scales_(model, adapter) {
  slots_.push_back({std::move(arena), {}});
}

RecordedStep& RecordedSteps::prepare(const WantedRows& wanted, std::size_t slot) {
  while (slots_.size() <= slot) slots_.push_back({std::make_shared<Arena>(), {}});
  auto& [arena, steps] = slots_[slot];
  const RowCounts counts = recorded_row_counts(wanted.rows, wanted.labelled,
                                               model_->context().device().kind, wanted.attending);
  const auto found = std::ranges::find_if(steps, [&](const RecordedStep& step) {
    const RecordedRows& of = step.inputs();
    return RowCounts{of.rows(), of.labelled_rows(), of.attending_rows()} == counts;
  });
  if (found != steps.end()) {
    steps.splice(steps.begin(), steps, found);
    return steps.front();
  }
  if (steps.size() >= kMaxRecorded) {
    model_->context().finish();  // the step to drop may still run
    steps.pop_back();
  }
  return steps.emplace_front(*model_, adapter_, task_, counts, results_, arena, wanted.attended,
                             &scales_);
}

Fence RecordedSteps::submit(const PackedRows& packed, const RecordedRows::Scalars& scalars,
                            std::vector<std::int32_t>& staging) {
  return upload(packed, scalars, staging).batch().submit();
}

RecordedStep& RecordedSteps::upload(const PackedRows& packed, const RecordedRows::Scalars& scalars,
                                    std::vector<std::int32_t>& staging, std::size_t slot) {
  if (packed.rows() > 0) model_->require_context(std::ranges::max(packed.positions) + 1);
  RecordedStep& step = prepare(wanted_rows(packed), slot);
  PackedRows padded = packed;
  pad_rows(padded, static_cast<std::size_t>(step.inputs().rows()),
           static_cast<std::size_t>(step.inputs().attending_rows()));
  RecordedRows::Scalars with_rows = scalars;
  with_rows.rows = static_cast<std::int64_t>(packed.rows());
  step.inputs().upload(model_->context(), padded, with_rows, staging);
  return step;
}

}  // namespace clora
