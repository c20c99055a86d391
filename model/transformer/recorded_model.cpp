#include "model/transformer/recorded_model.hpp"

#include <algorithm>

#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "clora/ops/rowwise/embedding_noise.hpp"
#include "clora/ops/rowwise/soft_cap.hpp"
#include "model/transformer/norm.hpp"
#include "ops/activations.hpp"

namespace clora {

RecordedModel::RecordedModel(Recording& recording, const ModelInputs& inputs)
    : recording_(recording) {
  const LanguageModel& model = recording.model();
  Batch& batch = recording.batch();
  const Tensor x = rows_of_stream(recording.rows(), "embeddings");
  record_embedding(batch, x, inputs.ids, model.embeddings(),
                   static_cast<float>(model.config().embedding_scale));
  if (!recording.embedding_noise().empty()) {
    record_embedding_noise(batch, x, recording.embedding_noise(), recording.seed_and_step());
  }
  add_positions(x);
  const bool fused = inputs.fused_blocks && inputs.fused_blocks(x);
  selected_rows_ = fused ? x : record_blocks(x);
  if (!inputs.selected.empty()) {
    const Tensor all = selected_rows_;
    selected_rows_ = rows_of_stream(inputs.selected.elements(), "selected rows");
    record_embedding(batch, selected_rows_, inputs.selected, all);  // gathers rows
  }
  output_ = selected_rows_;
  if (model.final_norm().empty()) return;
  output_ = batch.temporary(selected_rows_.shape(), inputs.output_type, "final norm");
  record_norm(batch, output_, selected_rows_, model.final_norm(), recording.epsilon());
}

// What an encoder adds to its embeddings.
void RecordedModel::add_positions(const Tensor& x) {
  const LanguageModel& model = recording_.model();
  Batch& batch = recording_.batch();
  if (!model.position_embeddings().empty()) {
    const Tensor positions = rows_of_stream(recording_.rows(), "position embeddings");
    record_embedding(batch, positions, recording_.row_inputs().positions,
                     model.position_embeddings());
    record_add(batch, x, x, positions, 1);
  }
  if (model.embedding_norm().empty()) return;
  record_norm(batch, x, x, model.embedding_norm(), recording_.epsilon());
}

void RecordedModel::record_logits(const Tensor& logits) const {
  const LanguageModel& model = recording_.model();
  record_gemm(recording_.batch(), logits, output_, model.head());
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

bool RecordedModel::Block::has_adapter() const {
  return std::ranges::any_of(layers, [](const auto& layer) { return layer.f->has_adapter(); });
}

// What an activation-checkpointed block saves is overwritten when it is recomputed: a temporary
// lives until the last command that uses it, so nothing has to be dropped here.
Tensor RecordedModel::record_blocks(Tensor x) {
  for (const BlockWeights& weights : recording_.model().blocks()) {
    Block& block = blocks_.emplace_back();
    if (keeps_input(blocks_.size() - 1)) block.input = recording_.save_checkpoint(x);
    for (const SubLayerWeights& layer : weights) {
      block.layers.push_back({&layer, make_sub_layer(recording_, layer)});
    }
    block.gradients = recording_.take_adapted_gradients();
    x = record_block(block, x);
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
  const SubLayerWeights& weights = *layer.weights;
  const ProductInput h = recording_.normed_input(x, weights.norm, "normed");
  const Tensor y = recording_.like(x, "residual stream");
  if (weights.sum_norm.empty()) {
    record_sum(layer, y, x, h);
  } else {
    const Tensor sum = recording_.like(x, "sum");
    record_sum(layer, sum, x, h);
    record_norm(recording_.batch(), y, sum, weights.sum_norm, recording_.epsilon());
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
  const NormWeights& norm = weights.post_norm;
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

void RecordedModel::recompute_inputs(std::size_t last) {
  const std::size_t first = segment_of(last);
  Tensor x = restored(blocks_[first].input, DType::f32);
  for (std::size_t b = first; b < last; ++b) {
    x = record_block(blocks_[b], x);
    blocks_[b + 1].input = recording_.save_checkpoint(x);
  }
}

// Without the output of the last layer, if that saves time.
void RecordedModel::recompute_layers(Block& block) {
  Tensor x = restored(block.input, DType::f32);
  for (ResidualLayer& layer : block.layers) {
    const bool is_last = &layer == &block.layers.back();
    if (is_last && layer.is_plain() &&
        layer.f->record_recompute(recording_.norm(x, layer.weights->norm, "normed"))) {
      layer.x = x;
      break;
    }
    x = record_layer(layer, x);
  }
  block.layers.front().x = block.input;  // restored once more, later, in place of kept until then
}

void RecordedModel::recompute(std::size_t block) {
  if (!recording_.policy().checkpoints() || block + 1 == blocks_.size()) return;
  recording_.set_recomputes(true);
  if (blocks_[block].input.empty()) recompute_inputs(block);
  recompute_layers(blocks_[block]);
  recording_.set_recomputes(false);
}

RecordedModel::StreamGradient RecordedModel::record_output_backward(const Tensor& doutput,
                                                                    const Tensor& place) {
  Batch& batch = recording_.batch();
  const NormWeights& norm = recording_.model().final_norm();
  if (!norm.empty()) {
    record_norm_backward(batch, doutput, doutput, selected_rows_, norm, {}, recording_.epsilon());
  }
  StreamGradient dx{doutput, {}};
  if (!place.empty()) {
    dx.d = rows_of_stream(recording_.rows(), "dx");
    record_embedding(batch, dx.d, place, doutput);  // zeros for rows that are not selected
  }
  if (recording_.type() != DType::f32) {
    dx.bf16 = recording_.activation(dx.d.shape(), "dx bf16");
    round_gradient(dx);
  }
  return dx;
}

Tensor RecordedModel::gradient_of_output(const ResidualLayer& layer, const StreamGradient& dy) {
  const SubLayerWeights& weights = *layer.weights;
  if (layer.output.empty()) return dy.for_products();
  Tensor scaled = dy.d;
  if (weights.multiplier != 1) {
    scaled = recording_.activation(dy.d.shape(), "d multiplied");
    record_add(recording_.batch(), scaled, {}, dy.d, weights.multiplier);
  }
  if (weights.post_norm.empty()) return scaled;
  const Tensor doutput = recording_.activation(dy.d.shape(), "d sub-layer");
  record_norm_backward(recording_.batch(), doutput, scaled,
                       restored(layer.output, recording_.type()), weights.post_norm, {},
                       recording_.epsilon());
  return doutput;
}

void RecordedModel::record_layer_backward(const ResidualLayer& layer, StreamGradient& dy,
                                          bool wants_dx) {
  Batch& batch = recording_.batch();
  const NormWeights &norm = layer.weights->norm, &sum_norm = layer.weights->sum_norm;
  if (!sum_norm.empty()) {
    record_norm_backward(batch, dy.d, dy.d, restored(layer.sum, DType::f32), sum_norm, {},
                         recording_.epsilon());
    round_gradient(dy);
  }
  const Tensor dh = wants_dx ? recording_.like(dy.d, "d normed") : Tensor();
  const auto pending = layer.f->record_backward(dh, gradient_of_output(layer, dy));
  if (pending.empty() && !wants_dx) return;
  const Tensor x = restored(layer.x, DType::f32);
  Tensor h;
  if (wants_dx && norm.is_rms_norm()) {
    if (!pending.empty()) h = recording_.activation(x.shape(), "normed recomputed");
    begin_bf16(dy);
    record_rms_norm_backward(batch, dy.d, dh, x, norm.w, dy.d, recording_.epsilon(),
                             {.dx_bf16 = dy.bf16, .y = h});
  } else {
    if (!pending.empty()) h = recording_.norm(x, norm, "normed recomputed");
    if (wants_dx) add_gradient_of_input(dy, dh, {x, norm});
  }
  if (!pending.empty()) record_lora_linears_da(batch, h, pending, recording_.deferred());
}

void RecordedModel::add_gradient_of_input(StreamGradient& dy, const Tensor& dh,
                                          const NormedInput& input) {
  Batch& batch = recording_.batch();
  if (input.norm.empty()) {
    record_add(batch, dy.d, dy.d, dh, 1);
  } else {
    record_norm_backward(batch, dy.d, dh, input.x, input.norm, dy.d, recording_.epsilon());
  }
  round_gradient(dy);
}

// Until the lowest layer with an adapter, if the block is the lowest with one.
void RecordedModel::record_block_backward(Block& block, StreamGradient& dx, bool is_lowest) {
  auto lowest = block.layers.begin();
  const auto has_adapter = [](const ResidualLayer& layer) { return layer.f->has_adapter(); };
  if (is_lowest) lowest = std::ranges::find_if(block.layers, has_adapter);
  for (auto layer = block.layers.end(); layer != lowest;) {
    --layer;
    record_layer_backward(*layer, dx, !is_lowest || layer != lowest);
  }
}

// A new copy each time: its memory is free between its last reader and the next one.
void RecordedModel::begin_bf16(StreamGradient& dy) {
  if (!dy.bf16.empty()) dy.bf16 = recording_.activation(dy.d.shape(), "dx bf16");
}

void RecordedModel::round_gradient(StreamGradient& dy) {
  begin_bf16(dy);
  if (!dy.bf16.empty()) record_cast_to_bf16(recording_.batch(), dy.bf16, dy.d);
}

void RecordedModel::note_gradients(const Block& block) {
  if (block.gradients.empty()) return;
  if (recording_.marks_gradients() && !gradient_parts_.empty()) {
    gradient_parts_.back().mark = recording_.batch().mark("gradients of a block");
  }
  gradient_parts_.push_back({block.gradients});
}

void RecordedModel::record_backward(const Tensor& doutput, const Tensor& place) {
  StreamGradient dx = record_output_backward(doutput, place);
  const auto lowest_block = std::ranges::find_if(blocks_, &Block::has_adapter);
  for (auto block = blocks_.end(); block != lowest_block;) {
    --block;
    recompute(static_cast<std::size_t>(block - blocks_.begin()));
    record_block_backward(*block, dx, block == lowest_block);
    note_gradients(*block);
  }
  recording_.deferred().flush(recording_.batch());
}

}  // namespace clora
