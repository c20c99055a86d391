#include "model/transformer/feed_forward_layer.hpp"

#include <algorithm>
#include <array>

#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/rowwise/cast.hpp"

namespace clora {

FeedForwardLayer::FeedForwardLayer(Recording& recording, const FeedForwardWeights& weights)
    : recording_(recording),
      function_(weights.spec.function),
      gate_up_linears_(recording, weights.gate_up,
                       {weights.spec.down.inputs, weights.spec.down.inputs}),
      down_linear_(recording.adapted(weights.down)) {
  const std::int64_t rows = recording.rows(), wanted = recording.policy().feed_forward_rows;
  const std::int64_t step = wanted == 0 ? rows : wanted;
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    tiles_.push_back({begin, std::min(step, rows - begin)});
  }
}

bool FeedForwardLayer::has_adapter() const {
  return gate_up_linears_.has_adapter() || down_linear_.is_trained();
}

void FeedForwardLayer::use_tile(std::size_t tile) {
  gate_up_linears_.set_tile(static_cast<std::int64_t>(tile));
  set_tile(down_linear_, static_cast<std::int64_t>(tile));
  down_linear_.s = tiles_[tile].down_s;
  down_linear_.f = tiles_[tile].down_f;
}

// Returns bf16 memory for the largest activations that the backward needs, if products round their
// operands anyway. This saves a quarter of a step's memory.
FeedForwardLayer::GateUp FeedForwardLayer::bf16_copies(const GateUp& computed) {
  Batch& batch = recording_.batch();
  const bool rounds = products_round_to_bf16(batch.context());
  if (!recording_.trains() || !rounds || computed.gate.type() == DType::bf16) return {};
  return {batch.temporary(computed.gate.shape(), DType::bf16, "saved gate"),
          batch.temporary(computed.up.shape(), DType::bf16, "saved up")};
}

FeedForwardLayer::GateUp FeedForwardLayer::record_gate_up_again(const Tensor& h) {
  const std::vector<Tensor> outputs = gate_up_linears_.record_forward(h);
  const GateUp computed{outputs[0], outputs[1]}, copies = bf16_copies(computed);
  if (copies.gate.empty()) return computed;
  record_cast(recording_.batch(), copies.gate, computed.gate);
  record_cast(recording_.batch(), copies.up, computed.up);
  return copies;
}

void FeedForwardLayer::record_forward(const Tensor& y, const ProductInput& h,
                                      const Tensor& residual) {
  h_ = is_tiled() ? record_input(recording_.batch(), h) : Tensor();
  for (std::size_t t = 0; t < tiles_.size(); ++t) {
    Tile& tile = tiles_[t];
    const auto part = [&](const Tensor& x) {
      return is_tiled() && !x.empty() ? x.rows(tile.begin, tile.count) : x;
    };
    use_tile(t);
    const std::vector<Tensor> outputs =
        gate_up_linears_.record_forward(is_tiled() ? ProductInput(part(h_)) : h);
    const ProductInput product = product_of({outputs[0], outputs[1]});
    record_linear(recording_, down_linear_, part(y), product, part(residual));
    tile.down_s = down_linear_.s;
    tile.down_f = down_linear_.f;
  }
}

// The input of down; kept with what the backward reads if the pass trains, else computed by down.
ProductInput FeedForwardLayer::product_of(const GateUp& computed) {
  const Tensor product = recording_.activation(computed.gate.shape(), "swiglu");
  if (!recording_.trains()) return {product, SwigluOf{computed.gate, computed.up, function_}};
  const GateUp copies = bf16_copies(computed);
  record_swiglu(recording_.batch(), product, computed.gate, computed.up, {copies.gate, copies.up},
                function_);
  if (!is_tiled()) save(copies.gate.empty() ? computed : copies);
  return product;
}

// Without down, a third of the products, unless its backward reads its output (DoRA).
bool FeedForwardLayer::record_recompute(const Tensor& h) {
  if (down_linear_.is_decomposed()) return false;
  h_ = is_tiled() ? h : Tensor();
  if (is_tiled()) return true;
  use_tile(0);
  saved_ = record_gate_up_again(h);
  return true;
}

void FeedForwardLayer::save(const GateUp& outputs) {
  type_ = outputs.gate.type();
  saved_ = {recording_.save(outputs.gate), recording_.save(outputs.up)};
}

FeedForwardLayer::GateUp FeedForwardLayer::restored(const GateUp& saved) {
  return {recording_.restore(saved.gate, saved.gate.shape(), type_),
          recording_.restore(saved.up, saved.up.shape(), type_)};
}

std::vector<PendingGradient> FeedForwardLayer::record_tile_backward(const Tensor& dh,
                                                                    const Tensor& dy,
                                                                    const GateUp& outputs) {
  const auto& [gate, up] = outputs;
  const auto like_gate = [&](std::string_view name) {
    return recording_.activation(gate.shape(), name);
  };
  const Tensor dproduct = like_gate("d swiglu");
  const auto pending =
      record_linears_dx(recording_, dproduct, std::array{LinearGradient{&down_linear_, dy}});
  const Tensor& product = dproduct;  // recomputed in place, after dproduct is read
  const Tensor dgate = like_gate("d gate"), dup = like_gate("d up");
  const auto factors = gate_up_linears_.dora_factors();
  if (!factors.empty()) {
    record_dora_swiglu_backward(
        recording_.batch(),
        {dgate, dup, product, dproduct, gate, up, factors.front(), factors.back(), function_},
        &recording_.deferred_magnitudes());
    record_linears_da(recording_, product, pending);
    return gate_up_linears_.record_backward(dh, std::array{dgate, dup}, DoraScaled::yes);
  }
  record_swiglu_backward(recording_.batch(), dgate, dup, dproduct, gate, up, product, function_);
  record_linears_da(recording_, product, pending);
  gate_up_linears_.set_outputs(std::array{gate, up});
  return gate_up_linears_.record_backward(dh, std::array{dgate, dup});
}

// Gradients of one matrix must not wait together, so each tile flushes its own.
void FeedForwardLayer::record_tiles_backward(const Tensor& dh, const Tensor& dy) {
  for (std::size_t t = 0; t < tiles_.size(); ++t) {
    const auto part = [&](const Tensor& x) {
      return x.empty() ? x : x.rows(tiles_[t].begin, tiles_[t].count);
    };
    use_tile(t);
    recording_.deferred().flush(recording_.batch());
    const GateUp outputs = record_gate_up_again(part(h_));
    const auto pending = record_tile_backward(part(dh), part(dy), outputs);
    record_linears_da(recording_, part(h_), pending);
  }
  recording_.deferred().flush(recording_.batch());
}

std::vector<PendingGradient> FeedForwardLayer::record_backward(const Tensor& dh, const Tensor& dy) {
  if (!is_tiled()) {
    use_tile(0);
    return record_tile_backward(dh, dy, restored(saved_));
  }
  record_tiles_backward(dh, dy);
  return {};
}

}  // namespace clora
