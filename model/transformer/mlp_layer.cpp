#include "model/transformer/mlp_layer.hpp"

#include <array>

namespace clora {

MlpLayer::MlpLayer(Recording& recording, const MlpWeights& weights)
    : recording_(recording),
      form_(weights.spec.form),
      up_linear_(recording.adapted(weights.up)),
      down_linear_(recording.adapted(weights.down)) {}

bool MlpLayer::has_adapter() const { return up_linear_.is_trained() || down_linear_.is_trained(); }

void MlpLayer::record_forward(const Tensor& y, const ProductInput& h, const Tensor& residual) {
  up_ = record_linears(recording_, h, std::array{&up_linear_}).front();
  const Tensor raised =
      recording_.trains() ? recording_.activation(up_.shape(), "gelu") : up_;  // else in place
  record_gelu(recording_.batch(), raised, up_, form_);
  record_linear(recording_, down_linear_, y, raised, residual);
}

std::vector<PendingGradient> MlpLayer::record_backward(const Tensor& dh, const Tensor& dy) {
  const Tensor draised = recording_.activation(up_.shape(), "d gelu");
  const auto pending =
      record_linears_dx(recording_, draised, std::array{LinearGradient{&down_linear_, dy}});
  const Tensor dup = recording_.activation(up_.shape(), "d up");
  const Tensor& raised = draised;  // recomputed in place, after draised is read
  record_gelu_backward(recording_.batch(), dup, draised, up_, raised, form_);
  record_linears_da(recording_, raised, pending);
  return record_linears_dx(recording_, dh, std::array{LinearGradient{&up_linear_, dup}});
}

}  // namespace clora
