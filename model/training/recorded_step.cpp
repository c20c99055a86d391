#include "clora/model/training/recorded_step.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/lora_linear/lora_linear.hpp"
#include "clora/ops/loss/cross_entropy.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "ops/activations.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::size_t kMaxRecorded = 24;

bool any_lora(const PerProjection<LoraWeights>& loras) {
  for (const LoraWeights& lora : loras) {
    if (!lora.empty()) return true;
  }
  return false;
}

}  // namespace

struct RecordedStep::RecordedBlocks {
  std::vector<Block> blocks = {};
  std::vector<BlockActivations> saved = {};  // one per block
  Tensor y = {};                             // [T, D], the output of the last block
  std::int64_t lowest = 0;  // the lowest block with an adapter; the number of blocks without one
};

RecordedStep::RecordedStep(LanguageModel& model, const Adapter* adapter, StepKind kind,
                           RowCounts counts, const StepResults& results,
                           std::shared_ptr<Arena> arena, double attended)
    : model_(&model),
      adapter_(adapter),
      kind_(kind),
      attended_(attended),
      inputs_(model.context(), counts.rows, counts.labelled),
      batch_(model.context(), std::move(arena)) {
  require(kind != StepKind::train || adapter != nullptr,
          "recorded step: training needs an adapter");
  record(results);
  batch_.seal();
}

Tensor RecordedStep::record_bf16_adapter() {
  if (adapter_ == nullptr || !reads_bf16_adapter(model_->context())) return {};
  const Tensor& parameters = adapter_->parameters();
  const Tensor bf16 = batch_.temporary(parameters.shape(), DType::bf16, "bf16 adapter");
  record_cast_to_bf16(batch_, bf16, parameters);
  return bf16;
}

Block RecordedStep::block_at(std::int64_t layer, const Tensor& bf16_adapter) const {
  Block block = block_of(*model_, adapter_, layer, bf16_adapter);
  block.rows = {.positions = inputs_.positions(),
                .first = inputs_.first(),
                .last = inputs_.last(),
                .keys_per_row = attended_};
  for (std::size_t p = 0; p < kProjections && kind_ == StepKind::train; ++p) {
    block.loras[p].dropout = {
        .probability = static_cast<float>(adapter_->config().dropout),
        .seed_and_step = inputs_.seed_and_step(),
        .site = static_cast<std::uint32_t>(static_cast<std::size_t>(layer) * kProjections + p)};
  }
  return block;
}

Tensor RecordedStep::temporary_rows(std::int64_t rows, std::string_view name, DType type) {
  return batch_.temporary({rows, model_->config().hidden_size}, type, name);
}

RecordedStep::RecordedBlocks RecordedStep::record_blocks() {
  const ModelConfig& config = model_->config();
  const std::int64_t rows = inputs_.rows();
  const Tensor rope_table = model_->rope_table(rows);
  const Tensor order = record_attention_order(batch_, inputs_.first(), inputs_.last(), config.heads,
                                              config.head_dim);
  const Tensor bf16_adapter = record_bf16_adapter();
  const Save save = kind_ == StepKind::train ? Save::for_backward : Save::nothing;

  RecordedBlocks forward{.lowest = config.layers};
  Tensor x = temporary_rows(rows, "embeddings");
  record_embedding(batch_, x, inputs_.ids(), model_->embeddings());
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    Block block = block_at(layer, bf16_adapter);
    block.rope_table = rope_table;
    block.rows.order = order;
    if (forward.lowest == config.layers && any_lora(block.loras)) forward.lowest = layer;
    const Tensor y = temporary_rows(rows, "block output");
    forward.saved.push_back(record_block(batch_, y, x, block, save));
    forward.blocks.push_back(std::move(block));
    x = y;
  }
  forward.y = x;
  return forward;
}

Tensor RecordedStep::record_labelled_rows(const Tensor& x) {
  const Tensor labelled = temporary_rows(inputs_.labelled_rows(), "labelled rows");
  record_embedding(batch_, labelled, inputs_.labelled(), x);
  return labelled;
}

Tensor RecordedStep::record_loss(const Tensor& labelled, const Tensor& loss_sum) {
  const std::int64_t rows = inputs_.labelled_rows();
  const Tensor normed = temporary_rows(rows, "final norm", model_->context().activation_type());
  record_rms_norm(batch_, normed, labelled, model_->final_norm(), epsilon());
  const Tensor loss = batch_.temporary({rows}, DType::f32, "loss");
  const Tensor dnormed =
      kind_ == StepKind::train ? temporary_rows(rows, "d labelled rows") : Tensor();
  record_head_loss(batch_, loss, dnormed,
                   {.x = normed,
                    .head = model_->head(),
                    .targets = inputs_.targets(),
                    .weight = inputs_.weight()});
  record_sum(batch_, loss_sum, loss, true);
  return dnormed;
}

StreamGradient RecordedStep::record_head_backward(const Tensor& labelled, const Tensor& dlabelled) {
  record_rms_norm_backward(batch_, dlabelled, dlabelled, labelled, model_->final_norm(), {},
                           epsilon());
  const StreamGradient dx = stream_gradient(batch_, {inputs_.rows(), model_->config().hidden_size});
  record_embedding(batch_, dx.d, inputs_.place(), dlabelled);  // zeros for rows without a label
  record_stream_bf16(batch_, dx);
  return dx;
}

PerProjection<LoraGradients> RecordedStep::adapter_gradients(std::int64_t layer) const {
  PerProjection<LoraGradients> gradients;
  for (std::size_t p = 0; p < kProjections; ++p) {
    gradients[p] = adapter_->gradients(path_of(layer, static_cast<Projection>(p)));
  }
  return gradients;
}

void RecordedStep::record_blocks_backward(const RecordedBlocks& forward, const StreamGradient& dx) {
  DeferredGradients deferred;
  for (std::int64_t layer = model_->config().layers - 1; layer >= forward.lowest; --layer) {
    const auto i = static_cast<std::size_t>(layer);
    record_block_backward(batch_, dx, forward.saved[i], forward.blocks[i], adapter_gradients(layer),
                          deferred, layer > forward.lowest);
  }
  deferred.flush(batch_);
}

void RecordedStep::record(const StepResults& results) {
  const bool training = kind_ == StepKind::train;
  const TraceSpan span(model_->context().trace(), "record",
                       training ? "training step" : "evaluation step");
  const RecordedBlocks forward = record_blocks();
  const Tensor labelled = record_labelled_rows(forward.y);
  const Tensor dlabelled = record_loss(labelled, results.loss_sum);
  if (!results.settings.empty()) batch_.copy(results.settings, inputs_.settings());
  if (training) record_blocks_backward(forward, record_head_backward(labelled, dlabelled));
}

RowCounts recorded_row_counts(std::size_t rows, std::size_t labelled, DeviceKind device) {
  const bool fine = device == DeviceKind::cpu;
  const auto rounded = [fine](std::size_t count) {
    const std::size_t least = std::max<std::size_t>(count, 1);
    const std::size_t step =
        std::max<std::size_t>(fine ? 16 : 64, std::bit_floor(least) / (fine ? 16 : 8));
    return static_cast<std::int64_t>(round_up(least, step));
  };
  return {rounded(rows), std::min(rounded(rows), rounded(labelled))};
}

RecordedSteps::RecordedSteps(LanguageModel& model, const Adapter* adapter, StepKind kind,
                             StepResults results, std::shared_ptr<Arena> arena)
    : model_(&model),
      adapter_(adapter),
      kind_(kind),
      results_(std::move(results)),
      arena_(std::move(arena)) {}

RecordedStep& RecordedSteps::prepare(const WantedRows& wanted) {
  const RowCounts counts =
      recorded_row_counts(wanted.rows, wanted.labelled, model_->context().device().kind);
  const auto found = std::ranges::find_if(steps_, [&](const RecordedStep& step) {
    return RowCounts{step.inputs().rows(), step.inputs().labelled_rows()} == counts;
  });
  if (found != steps_.end()) {
    steps_.splice(steps_.begin(), steps_, found);
    return steps_.front();
  }
  if (steps_.size() >= kMaxRecorded) {
    model_->context().finish();  // the step to drop may still run
    steps_.pop_back();
  }
  return steps_.emplace_front(*model_, adapter_, kind_, counts, results_, arena_, wanted.attended);
}

Fence RecordedSteps::submit(const PackedRows& packed, const RecordedRows::Scalars& scalars,
                            std::vector<std::int32_t>& staging) {
  RecordedStep& step = prepare(wanted_rows(packed));
  PackedRows padded = packed;
  pad_rows(padded, static_cast<std::size_t>(step.inputs().rows()));
  step.inputs().upload(model_->context(), padded, scalars, staging);
  return step.batch().submit();
}

}  // namespace clora
