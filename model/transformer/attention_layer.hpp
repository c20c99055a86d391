// AttentionLayer: attention in a recorded pass, over the pass's own rows or over a KV cache. The
// range of keys of each row, in the pass's inputs, says whether it is causal.
//
//   q, k, v = linears(h); q and k normalised per head if the model does so; q and k rotated
//   f(h) = o(attention(q, k, v)), or o(attention(q, k, v) * sigmoid(gate)) with q's layer giving
//   the gate as well
//
// With a cache, the rows' keys and values are stored in it, and read from it (CachePlaces). If
// documents have rows in common (RowInputs::shared), only the attention itself reads and writes a
// row once for each of them (model/transformer/shared_attention.hpp).
#pragma once

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/rowwise/rope.hpp"
#include "model/transformer/adapted_linears.hpp"
#include "model/transformer/sub_layer.hpp"

namespace clora {

// AttentionInputs::scale of a layer.
float scale_of_scores(const AttentionLayerSpec& spec);

class AttentionLayer final : public SubLayer {
 public:
  AttentionLayer(Recording& recording, const AttentionWeights& weights);

  // Keys and values.
  static std::vector<Shape> cache_shapes(const AttentionLayerSpec& spec, std::int64_t positions);

  bool has_adapter() const override;
  void record_forward(const Tensor& y, const ProductInput& h, const Tensor& residual) override;
  std::vector<PendingGradient> record_backward(const Tensor& dh, const Tensor& dy) override;

 private:
  Tensor heads(const Tensor& x, std::int64_t count) const;
  Tensor flat(const Tensor& x) const;
  Tensor head_norm(const Tensor& x, const AdaptedNorm& norm, std::string_view name);
  void head_norm_backward(const Tensor& d, const Tensor& x, const AdaptedNorm& norm);
  void rotate(const Tensor& queries, const Tensor& keys, RopeDirection direction);
  void rotate_for_attention();
  void attention_backward(const AttentionGradients& d, const Tensor& dy);
  AttentionInputs inputs(const Tensor& k, const Tensor& v, const Recording::KeyRanges& ranges);
  void rotate_and_attend();
  void rotate_and_append(const CacheTensors& cache);
  void attend_to_cache(const CacheTensors& cache);
  void attend_to_pages(const CacheTensors& cache);
  void attend_of_prompts(const CacheTensors& cache);
  void split_gate(const Tensor& q);
  void gate_output();
  Tensor join_gate(const Tensor& dq, const Tensor& dgate);
  struct SavedActivation {
    Tensor* tensor;
    Shape shape;
  };
  std::vector<SavedActivation> activations();
  void save_activations();
  void restore_activations();

  Recording& recording_;
  const AttentionWeights& weights_;
  const AttentionLayerSpec& spec_;
  JoinedLinears qkv_linears_;
  AdaptedLinear o_linear_;
  AdaptedNorm q_norm_, k_norm_;
  // Of the forward.
  Tensor q_before_norm_, k_before_norm_;  // [T, H, E], [T, G, E]
  Tensor q_, k_, v_;                      // as attention reads them
  Tensor y_;                              // [T, H, E]: attention's output
  Tensor gate_, gated_;                   // [T, H, E]: that of the output, and the output with it
  Tensor log_sum_exp_;                    // [T, H], or of rows of attention; without a cache
};

}  // namespace clora
