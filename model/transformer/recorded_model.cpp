#include "model/transformer/recorded_model.hpp"

#include <algorithm>

#include "clora/ops/lora_linear/lora_embedding.hpp"
#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "clora/ops/rowwise/embedding_noise.hpp"
#include "clora/ops/rowwise/soft_cap.hpp"
#include "lora/end_modules.hpp"
#include "model/transformer/adapted_ends.hpp"
#include "model/transformer/adapter_stacks.hpp"
#include "model/transformer/norm.hpp"

namespace clora {

RecordedModel::RecordedModel(Recording& recording, const ModelInputs& inputs)
    : recording_(recording),
      embedding_norm_(recording.adapted(recording.model().embedding_norm())),
      final_norm_(recording.adapted(recording.model().final_norm())),
      stream_(inputs.stream),
      selected_groups_(inputs.selected.empty() ? recording.row_groups() : inputs.selected_groups) {
  const LanguageModel& model = recording.model();
  if (!model.is_first()) {
    require_tensor("recorded model", "stream", stream_,
                   {recording.rows(), model.config().hidden_size}, DType::f32);
  }
  const Tensor x = model.is_first() ? record_embeddings(inputs.ids) : stream_;
  const bool fused = inputs.fused_blocks && inputs.fused_blocks(x);
  output_ = fused ? x : record_blocks(x, inputs);
  if (!model.is_last()) return;
  selected_rows_ = selected(output_, inputs.selected);
  output_ = selected_rows_;
  if (final_norm_.empty()) return;
  Batch& batch = recording.batch();
  output_ = batch.temporary(selected_rows_.shape(), inputs.output_type, "final norm");
  record_norm(batch, output_, selected_rows_, final_norm_.weights, recording.epsilon());
}

Tensor RecordedModel::record_embeddings(const Tensor& ids) {
  Batch& batch = recording_.batch();
  const Tensor x = rows_of_stream(recording_.rows(), "embeddings");
  record_embedding(batch, x, ids, embeddings_of(recording_.model(), recording_.adapter()),
                   embedding_scale());
  add_adapter_of_embeddings(x, ids);
  if (!recording_.embedding_noise().empty()) {
    record_embedding_noise(batch, x, recording_.embedding_noise(), recording_.seed_and_step());
  }
  if (recording_.trains()) dembeddings_ = embeddings_gradient_of(recording_.adapter());
  if (!dembeddings_.empty()) adapted_ids_ = ids;
  return with_positions(x);
}

// x itself if `rows` is empty.
Tensor RecordedModel::selected(const Tensor& x, const Tensor& rows) {
  if (rows.empty()) return x;
  const Tensor chosen = rows_of_stream(rows.elements(), "selected rows");
  record_embedding(recording_.batch(), chosen, rows, x);  // gathers rows
  return chosen;
}

float RecordedModel::embedding_scale() const {
  return static_cast<float>(recording_.model().config().embedding_scale);
}

LoraWeights RecordedModel::embedding_adapter() const {
  LoraWeights lora;
  if (recording_.stacks() != nullptr) {
    lora = recording_.stacks()->weights(kEmbeddingsPath, recording_.row_groups());
  }
  return lora.empty() ? embedding_adapter_of(recording_.adapter()) : lora;
}

LoraWeights RecordedModel::head_adapter() const {
  LoraWeights lora;
  if (recording_.stacks() != nullptr) {
    lora = recording_.stacks()->weights(kHeadPath, selected_groups_);
  }
  return lora.empty() ? head_adapter_of(recording_.adapter()).lora : lora;
}

void RecordedModel::add_adapter_of_embeddings(const Tensor& x, const Tensor& ids) {
  const LoraWeights lora = embedding_adapter();
  if (lora.empty()) return;
  adapted_ids_ = ids;
  embedding_s_ = recording_.temporary({recording_.rows(), lora.rank()}, "s of embeddings");
  record_lora_embedding(recording_.batch(), x, embedding_s_, ids, lora, embedding_scale());
}

Tensor RecordedModel::with_positions(const Tensor& x) {
  const LanguageModel& model = recording_.model();
  Batch& batch = recording_.batch();
  if (!model.position_embeddings().empty()) {
    const Tensor positions = rows_of_stream(recording_.rows(), "position embeddings");
    record_embedding(batch, positions, recording_.row_inputs().positions,
                     model.position_embeddings());
    record_add(batch, x, x, positions, 1);
  }
  if (embedding_norm_.empty()) return x;
  Tensor y = x;
  if (embedding_norm_.is_trained()) {
    embedded_ = x;
    y = rows_of_stream(recording_.rows(), "normed embeddings");
  }
  record_norm(batch, y, x, embedding_norm_.weights, recording_.epsilon());
  return y;
}

void RecordedModel::record_logits(const Tensor& logits) const {
  const LanguageModel& model = recording_.model();
  const LoraWeights lora = head_adapter();
  Tensor s;
  if (!lora.empty()) s = recording_.temporary({output_.shape()[0], lora.rank()}, "s of the head");
  record_lora_linear(recording_.batch(), logits, s, output_,
                     {head_of(model, recording_.adapter()), {}}, lora);
  const auto cap = static_cast<float>(model.config().logit_soft_cap);
  if (cap != 0) record_soft_cap(recording_.batch(), logits, cap);
}

Tensor RecordedModel::rows_of_stream(std::int64_t rows, std::string_view name) {
  return recording_.temporary({rows, recording_.model().config().hidden_size}, name);
}

Tensor RecordedModel::restored(const Tensor& saved, DType type) {
  return recording_.restore(saved, {recording_.rows(), recording_.model().config().hidden_size},
                            type);
}

bool RecordedModel::ResidualLayer::is_plain() const {
  return weights->post_norm.empty() && weights->sum_norm.empty() && weights->multiplier == 1;
}

bool RecordedModel::ResidualLayer::is_trained() const {
  return f->has_adapter() || norm.is_trained() || post_norm.is_trained() || sum_norm.is_trained();
}

bool RecordedModel::Block::is_trained() const {
  return std::ranges::any_of(layers, &ResidualLayer::is_trained);
}

// What an activation-checkpointed block saves is overwritten when it is recomputed: a temporary
// lives until the last command that uses it, so nothing has to be dropped here.
Tensor RecordedModel::record_blocks(Tensor x, const ModelInputs& inputs) {
  if (inputs.after_blocks) inputs.after_blocks(x, 0);
  for (const BlockWeights& weights : recording_.model().blocks()) {
    Block& block = blocks_.emplace_back();
    if (keeps_input(blocks_.size() - 1)) block.input = recording_.save_checkpoint(x);
    for (const SubLayerWeights& layer : weights) {
      block.layers.push_back({&layer, make_sub_layer(recording_, layer),
                              recording_.adapted(layer.norm), recording_.adapted(layer.post_norm),
                              recording_.adapted(layer.sum_norm)});
    }
    block.gradients = recording_.take_adapted_gradients();
    x = record_block(block, x);
    if (inputs.after_blocks) inputs.after_blocks(x, std::ssize(blocks_));
    if (!recording_.trains()) block = {};
  }
  return x;
}

Tensor RecordedModel::record_block(Block& block, const Tensor& x) {
  Tensor y = x;
  for (ResidualLayer& layer : block.layers) y = record_layer(layer, y);
  return y;
}

Tensor RecordedModel::record_layer(ResidualLayer& layer, const Tensor& x) {
  const ProductInput h = recording_.normed_input(x, layer.norm.weights, "normed");
  const Tensor y = recording_.like(x, "residual stream");
  if (layer.sum_norm.empty()) {
    record_sum(layer, y, x, h);
  } else {
    const Tensor sum = recording_.like(x, "sum");
    record_sum(layer, sum, x, h);
    record_norm(recording_.batch(), y, sum, layer.sum_norm.weights, recording_.epsilon());
    layer.sum = recording_.save(sum);
  }
  layer.x = recording_.save(x);
  return y;
}

void RecordedModel::record_sum(ResidualLayer& layer, const Tensor& y, const Tensor& x,
                               const ProductInput& h) {
  const SubLayerWeights& weights = *layer.weights;
  const bool plain = weights.post_norm.empty() && weights.multiplier == 1;
  if (plain) return layer.f->record_forward(y, h, x);
  const Tensor output = recording_.activation(x.shape(), "sub-layer");
  layer.f->record_forward(output, h, {});
  layer.output = recording_.save(output);
  const NormWeights& norm = layer.post_norm.weights;
  if (norm.is_rms_norm()) {  // adds in its own launch
    return record_rms_norm(recording_.batch(), y, output, norm.w, recording_.epsilon(),
                           {x, weights.multiplier});
  }
  const Tensor normed = norm.empty() ? output : recording_.norm(output, norm, "post norm");
  record_add(recording_.batch(), y, x, normed, weights.multiplier);
}

// The first block of the segment that has one checkpoint.
std::size_t RecordedModel::segment_of(std::size_t block) const {
  return block - block % static_cast<std::size_t>(recording_.policy().blocks_per_checkpoint);
}

// The last segment is not recomputed, since its backward comes first.
bool RecordedModel::keeps_input(std::size_t block) const {
  if (!recording_.trains() || !recording_.policy().checkpoints()) return false;
  return segment_of(block) == block || block >= segment_of(recording_.model().blocks().size() - 1);
}

}  // namespace clora
