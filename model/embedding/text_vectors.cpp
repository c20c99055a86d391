#include "model/embedding/text_vectors.hpp"

#include <cmath>
#include <vector>

#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/segment_mean.hpp"

namespace clora {
namespace {

constexpr float kSmallest = 1e-24F;  // of the mean square of a vector that is normalised

Tensor unit_norm(Context& context, std::int64_t width) {
  const std::vector<float> weights(static_cast<std::size_t>(width),
                                   1 / std::sqrt(static_cast<float>(width)));
  return context.upload<float>({width}, DType::f32, weights, MemoryTag::activations);
}

}  // namespace

TextVectors::TextVectors(Recording& recording, const RecordedRows& rows,
                         const EmbedderOptions& options)
    : recording_(recording),
      rows_(rows),
      takes_mean_(options.pooling == Pooling::mean),
      model_(recording, {.ids = rows.ids(), .selected = takes_mean_ ? Tensor() : rows.labelled()}),
      pooled_(pooled()),
      vectors_(pooled_) {
  if (!options.normalises) return;
  unit_norm_ = unit_norm(recording.model().context(), pooled_.shape()[1]);
  vectors_ = recording.temporary(pooled_.shape(), "unit vectors");
  record_rms_norm(recording.batch(), vectors_, pooled_, unit_norm_, kSmallest);
}

Tensor TextVectors::pooled() const {
  const Tensor& output = model_.output();
  if (!takes_mean_) return output;  // the labelled rows
  Tensor means = recording_.temporary({rows_.labelled_rows(), output.shape()[1]}, "means");
  record_segment_mean(recording_.batch(), means, output, rows_.texts());
  return means;
}

void TextVectors::record_backward(const Tensor& dvectors) {
  Batch& batch = recording_.batch();
  if (!unit_norm_.empty()) {
    record_rms_norm_backward(batch, dvectors, dvectors, pooled_, unit_norm_, {}, kSmallest);
  }
  if (!takes_mean_) return model_.record_backward(dvectors, rows_.place());
  const Tensor doutput = recording_.temporary(model_.output().shape(), "d output");
  record_segment_mean_backward(batch, doutput, dvectors, rows_.texts(), rows_.text());
  model_.record_backward(doutput, {});
}

}  // namespace clora
