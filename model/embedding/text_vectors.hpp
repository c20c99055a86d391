// TextVectors: a recorded pass whose rows are pooled into one vector for each text, and its
// backward: what an Embedder and a step of the contrastive loss record. Private to model/.
#pragma once

#include "clora/model/embedding/embedder.hpp"
#include "clora/model/transformer/recorded_rows.hpp"
#include "model/transformer/recorded_model.hpp"

namespace clora {

class TextVectors {
 public:
  // Records the pass over `rows`, of texts. The recording must outlive the object.
  TextVectors(Recording& recording, const RecordedRows& rows, const EmbedderOptions& options);

  // [C, D] f32, in the order of the texts; zeros after the last one.
  const Tensor& vectors() const noexcept { return vectors_; }

  // dvectors: their gradient, overwritten. Gradients of all adapters accumulate. REQUIRES: the pass
  // trains.
  void record_backward(const Tensor& dvectors);

 private:
  Tensor pooled() const;

  Recording& recording_;
  const RecordedRows& rows_;
  bool takes_mean_;
  RecordedModel model_;
  Tensor unit_norm_;  // [D], the weights of an rms_norm that gives length 1; or empty
  Tensor pooled_, vectors_;
};

}  // namespace clora
