#include "model/transformer/recorded_model.hpp"

#include <algorithm>

#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/embedding.hpp"
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

Tensor RecordedModel::record_blocks(Tensor x) {
  for (const BlockWeights& block : recording_.model().blocks()) {
    for (const SubLayerWeights& weights : block) {
      ResidualLayer& layer = layers_.emplace_back(&weights, make_sub_layer(recording_, weights), x);
      const Tensor h = recording_.norm(x, weights.norm, "normed");
      const Tensor y = recording_.like(x, "residual stream");
      if (weights.sum_norm.empty()) {
        record_layer(layer, y, h);
      } else {
        layer.sum = recording_.like(x, "sum");
        record_layer(layer, layer.sum, h);
        record_norm(recording_.batch(), y, layer.sum, weights.sum_norm, recording_.epsilon());
      }
      if (!recording_.trains()) layer = {};
      x = y;
    }
  }
  return x;
}

void RecordedModel::record_layer(ResidualLayer& layer, const Tensor& y, const Tensor& h) {
  const SubLayerWeights& weights = *layer.weights;
  const bool plain = weights.post_norm.empty() && weights.multiplier == 1;
  if (plain) return layer.f->record_forward(y, h, layer.x);
  layer.output = recording_.activation(layer.x.shape(), "sub-layer");
  layer.f->record_forward(layer.output, h, {});
  const NormWeights& norm = weights.post_norm;
  if (norm.is_rms_norm()) {  // adds in its own launch
    return record_rms_norm(recording_.batch(), y, layer.output, norm.w, recording_.epsilon(),
                           {layer.x, weights.multiplier});
  }
  const Tensor normed =
      norm.empty() ? layer.output : recording_.norm(layer.output, norm, "post norm");
  record_add(recording_.batch(), y, layer.x, normed, weights.multiplier);
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
  record_norm_backward(recording_.batch(), doutput, scaled, layer.output, weights.post_norm, {},
                       recording_.epsilon());
  return doutput;
}

void RecordedModel::record_layer_backward(const ResidualLayer& layer, const StreamGradient& dy,
                                          bool wants_dx) {
  Batch& batch = recording_.batch();
  const NormWeights &norm = layer.weights->norm, &sum_norm = layer.weights->sum_norm;
  if (!sum_norm.empty()) {
    record_norm_backward(batch, dy.d, dy.d, layer.sum, sum_norm, {}, recording_.epsilon());
    round_gradient(dy);
  }
  const Tensor dh = wants_dx ? recording_.like(layer.x, "d normed") : Tensor();
  const auto pending = layer.f->record_backward(dh, gradient_of_output(layer, dy));
  Tensor h;
  if (wants_dx && norm.is_rms_norm()) {
    h = recording_.activation(layer.x.shape(), "normed recomputed");
    record_rms_norm_backward(batch, dy.d, dh, layer.x, norm.w, dy.d, recording_.epsilon(),
                             {.dx_bf16 = dy.bf16, .y = h});
  } else {
    h = recording_.norm(layer.x, norm, "normed recomputed");
    if (wants_dx) add_gradient_of_input(dy, dh, layer);
  }
  record_lora_linears_da(batch, h, pending, recording_.deferred());
}

// dy += the gradient through the norm of dh.
void RecordedModel::add_gradient_of_input(const StreamGradient& dy, const Tensor& dh,
                                          const ResidualLayer& layer) {
  Batch& batch = recording_.batch();
  const NormWeights& norm = layer.weights->norm;
  if (norm.empty()) {
    record_add(batch, dy.d, dy.d, dh, 1);
  } else {
    record_norm_backward(batch, dy.d, dh, layer.x, norm, dy.d, recording_.epsilon());
  }
  round_gradient(dy);
}

void RecordedModel::round_gradient(const StreamGradient& dy) {
  if (!dy.bf16.empty()) record_cast_to_bf16(recording_.batch(), dy.bf16, dy.d);
}

void RecordedModel::record_backward(const Tensor& doutput, const Tensor& place) {
  const StreamGradient dx = record_output_backward(doutput, place);
  const auto has_adapter = [](const ResidualLayer& layer) { return layer.f->has_adapter(); };
  const auto lowest = std::ranges::find_if(layers_, has_adapter);
  for (auto layer = layers_.end(); layer != lowest;) {
    --layer;
    record_layer_backward(*layer, dx, layer != lowest);
  }
  recording_.deferred().flush(recording_.batch());
}

}  // namespace clora
