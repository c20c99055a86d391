// The backward of a RecordedModel, and what gradient checkpointing computes again for it.
#include <algorithm>

#include "clora/ops/lora_linear/lora_embedding.hpp"
#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "lora/end_modules.hpp"
#include "model/transformer/adapted_ends.hpp"
#include "model/transformer/norm.hpp"
#include "model/transformer/recorded_model.hpp"
#include "ops/activations.hpp"

namespace clora {

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
        layer.f->record_recompute(recording_.norm(x, layer.norm.weights, "normed"))) {
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
  if (!final_norm_.empty()) {
    record_norm_backward(batch, doutput, doutput, selected_rows_, final_norm_, {},
                         recording_.epsilon());
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
                       restored(layer.output, recording_.type()), layer.post_norm, {},
                       recording_.epsilon());
  return doutput;
}

void RecordedModel::record_layer_backward(const ResidualLayer& layer, StreamGradient& dy,
                                          bool wants_dx) {
  Batch& batch = recording_.batch();
  const AdaptedNorm& norm = layer.norm;
  if (!layer.sum_norm.empty()) {
    record_norm_backward(batch, dy.d, dy.d, restored(layer.sum, DType::f32), layer.sum_norm, {},
                         recording_.epsilon());
    round_gradient(dy);
  }
  const bool wants_dh = wants_dx || norm.is_trained();
  const Tensor dh = wants_dh ? recording_.like(dy.d, "d normed") : Tensor();
  const auto pending = layer.f->record_backward(dh, gradient_of_output(layer, dy));
  if (pending.empty() && !wants_dh) return;
  const Tensor x = restored(layer.x, DType::f32);
  Tensor h;
  if (wants_dx && norm.weights.is_rms_norm()) {
    if (!pending.empty()) h = recording_.activation(x.shape(), "normed recomputed");
    record_norm_parameters_backward(batch, dh, x, norm, recording_.epsilon());
    begin_bf16(dy);
    record_rms_norm_backward(batch, dy.d, dh, x, norm.weights.w, dy.d, recording_.epsilon(),
                             {.dx_bf16 = dy.bf16, .y = h});
  } else {
    if (!pending.empty()) h = recording_.norm(x, norm.weights, "normed recomputed");
    if (wants_dx)
      add_gradient_of_input(dy, dh, {x, norm});
    else
      record_norm_parameters_backward(batch, dh, x, norm, recording_.epsilon());
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

// Until the lowest layer that is trained, if the block is the lowest with one.
void RecordedModel::record_block_backward(Block& block, StreamGradient& dx, bool is_lowest) {
  auto lowest = block.layers.begin();
  if (is_lowest) lowest = std::ranges::find_if(block.layers, &ResidualLayer::is_trained);
  for (auto layer = block.layers.end(); layer != lowest;) {
    --layer;
    record_layer_backward(*layer, dx, !is_lowest || layer != lowest);
  }
  recording_.deferred_magnitudes().flush(recording_.batch());
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
  const bool to_input = !stream_.empty() || embedding_norm_.is_trained() || !embedding_s_.empty() ||
                        !dembeddings_.empty();
  const auto lowest_block =
      to_input ? blocks_.begin() : std::ranges::find_if(blocks_, &Block::is_trained);
  for (auto block = blocks_.end(); block != lowest_block;) {
    --block;
    recompute(static_cast<std::size_t>(block - blocks_.begin()));
    record_block_backward(*block, dx, !to_input && block == lowest_block);
    note_gradients(*block);
  }
  if (embedding_norm_.is_trained()) {
    record_norm_parameters_backward(recording_.batch(), dx.d, embedded_, embedding_norm_,
                                    recording_.epsilon());
  }
  if (!embedding_s_.empty()) record_embeddings_backward(dx.d);
  if (!dembeddings_.empty()) {
    record_table_gradient(recording_.batch(), dembeddings_, dx.d, adapted_ids_, embedding_scale());
  }
  recording_.deferred().flush(recording_.batch());
  if (!stream_.empty()) recording_.batch().copy(stream_, dx.d);
}

void RecordedModel::record_embeddings_backward(const Tensor& dx) {
  const Adapter& adapter = *recording_.adapter();
  record_lora_embedding_backward(recording_.batch(), adapter.gradients(kEmbeddingsPath), dx,
                                 {adapted_ids_, embedding_s_}, embedding_adapter_of(&adapter),
                                 embedding_scale());
}

}  // namespace clora
