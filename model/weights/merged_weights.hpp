// MergedWeights: the tensors of a base model with an adapter merged into them, one at a time.
// Refers to the files and the adapter, which must outlive it. Threads: one at a time, as the
// adapter's Context.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/weights/weights.hpp"

namespace clora {

class MergedWeights {
 public:
  // adapter: null for the base model alone.
  MergedWeights(const WeightFiles& base, const Adapter* adapter) : base_(base), adapter_(adapter) {}

  // That of the base model, but with a head of its own if the base has a tied head and the adapter
  // changes the head or the embeddings.
  ModelConfig config() const;

  // All tensors, as the base stores them, under Hugging Face's names. A head that is no longer tied
  // is the last one, with the bytes of the embeddings.
  std::vector<WeightView> views() const;

  // Whether the adapter changes the tensor.
  bool changes(const WeightView& view) const;

  // The values in Hugging Face's order; those of an adapted layer are w + scale b a, computed in
  // double. Errors: invalid_data, naming the tensor, for a value that is not finite.
  std::vector<float> values(const WeightView& view) const;

 private:
  bool unties() const;

  const WeightFiles& base_;
  const Adapter* adapter_;
};

// Throws Error(cancelled) if go_on is not empty and returns false.
void stop_if_cancelled(const std::function<bool()>& go_on, std::string_view who);

}  // namespace clora
