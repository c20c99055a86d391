#include "model/transformer/feed_forward_layer.hpp"

#include <array>
#include <tuple>

#include "clora/ops/gemm/gemm.hpp"

namespace clora {

FeedForwardLayer::FeedForwardLayer(Recording& recording, const FeedForwardWeights& weights)
    : recording_(recording),
      function_(weights.spec.function),
      gate_up_linears_(recording, weights.gate_up,
                       {weights.spec.down.inputs, weights.spec.down.inputs}),
      down_linear_(recording.adapted(weights.down)) {}

bool FeedForwardLayer::has_adapter() const {
  return gate_up_linears_.has_adapter() || !down_linear_.lora.empty();
}

// Returns bf16 memory for the largest activations that the backward needs, if products round their
// operands anyway. This saves a quarter of a step's memory.
SwigluSaved FeedForwardLayer::bf16_copies() {
  Batch& batch = recording_.batch();
  const bool rounds = products_round_to_bf16(batch.context());
  if (!recording_.trains() || !rounds || gate_.type() == DType::bf16) return {};
  return {batch.temporary(gate_.shape(), DType::bf16, "saved gate"),
          batch.temporary(up_.shape(), DType::bf16, "saved up")};
}

void FeedForwardLayer::record_forward(const Tensor& y, const Tensor& h, const Tensor& residual) {
  const std::vector<Tensor> outputs = gate_up_linears_.record_forward(h);
  gate_ = outputs[0];
  up_ = outputs[1];
  const Tensor product = recording_.activation(gate_.shape(), "swiglu");
  const SwigluSaved saved = bf16_copies();
  record_swiglu(recording_.batch(), product, gate_, up_, saved, function_);
  if (!saved.gate.empty()) std::tie(gate_, up_) = std::tie(saved.gate, saved.up);
  record_linear(recording_, down_linear_, y, product, residual);
}

std::vector<PendingGradient> FeedForwardLayer::record_backward(const Tensor& dh, const Tensor& dy) {
  const auto like_gate = [&](std::string_view name) {
    return recording_.activation(gate_.shape(), name);
  };
  const Tensor dproduct = like_gate("d swiglu");
  const auto pending =
      record_linears_dx(recording_, dproduct, std::array{LinearGradient{&down_linear_, dy}});
  const Tensor& product = dproduct;  // recomputed in place, after dproduct is read
  const Tensor dgate = like_gate("d gate"), dup = like_gate("d up");
  record_swiglu_backward(recording_.batch(), dgate, dup, dproduct, gate_, up_, product, function_);
  record_linears_da(recording_, product, pending);
  return gate_up_linears_.record_backward(dh, std::array{dgate, dup});
}

}  // namespace clora
