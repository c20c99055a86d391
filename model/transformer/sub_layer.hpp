// SubLayer: the function f of one sub-layer of a block in a recorded pass (BlockSpec).
//
// The forward keeps what the backward needs in the object. The residual stream and its gradient are
// f32; what products read has the Recording's type.
#pragma once

#include <memory>
#include <vector>

#include "model/transformer/recording.hpp"

namespace clora {

class SubLayer {
 public:
  virtual ~SubLayer() = default;

  // Whether it has parameters that are trained: of an adapter, or a linear layer or norm in full.
  virtual bool has_adapter() const = 0;
  // y [T, D] = residual + f(h [T, D]); y is neither h nor residual. REQUIRES: h is given if the
  // pass trains.
  virtual void record_forward(const Tensor& y, const ProductInput& h, const Tensor& residual) = 0;
  // Records again what the backward reads of record_forward(), but not y, if y is what takes the
  // time; else records nothing and returns false. REQUIRES: record_forward() with the same h.
  virtual bool record_recompute(const Tensor& h) {
    static_cast<void>(h);
    return false;
  }
  // dh = the gradient through f of dy; not computed if dh is empty. Adapter gradients accumulate;
  // those that await h are returned. REQUIRES: the pass trains; record_forward().
  virtual std::vector<PendingGradient> record_backward(const Tensor& dh, const Tensor& dy) = 0;
};

// The tensors that the sub-layer keeps between passes over one sequence of up to `positions`
// positions; none for most layers. What they contain is not read by a row at position 0, so that
// they need no reset; they cannot return to an earlier position, except those of attention.
std::vector<Shape> cache_shapes(const SubLayerSpec& layer, std::int64_t positions);
// Their type: that of the KV cache for attention; a state, which every position changes, is f32.
DType cache_type(const SubLayerSpec& layer, DType kv_cache_type);

// Both must outlive the result.
std::unique_ptr<SubLayer> make_sub_layer(Recording& recording, const SubLayerWeights& weights);

}  // namespace clora
