// FeedForwardLayer: the gated feed-forward of a block in a recorded pass,
//   f(h) = down(swiglu(gate(h), up(h))), or with geglu.
//
// Rows are independent of each other, so it is computed in tiles of rows (MemoryPolicy::
// feed_forward_rows), or in one. One tile keeps gate and up for the backward; several keep h, and
// the backward of each recomputes them. The backward recomputes swiglu's output in the pass that
// computes its gradient: keeping it would cost a tenth of the memory of a step.
#pragma once

#include "clora/ops/rowwise/swiglu.hpp"
#include "model/transformer/adapted_linears.hpp"
#include "model/transformer/sub_layer.hpp"

namespace clora {

class FeedForwardLayer final : public SubLayer {
 public:
  FeedForwardLayer(Recording& recording, const FeedForwardWeights& weights);

  bool has_adapter() const override;
  void record_forward(const Tensor& y, const ProductInput& h, const Tensor& residual) override;
  bool record_recompute(const Tensor& h) override;
  std::vector<PendingGradient> record_backward(const Tensor& dh, const Tensor& dy) override;

 private:
  // Gate and up [rows, F], in the type in which the backward reads them.
  struct GateUp {
    Tensor gate, up;
  };
  struct Tile {
    std::int64_t begin, count;  // rows
    Tensor down_s = {};         // AdaptedLinear::s of down, from the forward
    Tensor down_f = {};         // and AdaptedLinear::f
  };

  bool is_tiled() const { return tiles_.size() > 1; }
  void use_tile(std::size_t tile);
  GateUp bf16_copies(const GateUp& computed);
  ProductInput product_of(const GateUp& computed);
  // The same as record_forward() computes, for the backward.
  GateUp record_gate_up_again(const Tensor& h);
  void save(const GateUp& outputs);
  GateUp restored(const GateUp& saved);
  std::vector<PendingGradient> record_tile_backward(const Tensor& dh, const Tensor& dy,
                                                    const GateUp& outputs);
  void record_tiles_backward(const Tensor& dh, const Tensor& dy);

  Recording& recording_;
  GateFunction function_;
  JoinedLinears gate_up_linears_;
  AdaptedLinear down_linear_;
  std::vector<Tile> tiles_;
  Tensor h_;                 // if there are several tiles
  GateUp saved_;             // if there is one: as Recording::save() returned them
  DType type_ = DType::f32;  // of gate and up before that
};

}  // namespace clora
