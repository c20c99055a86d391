#include "model/transformer/experts_layer.hpp"

#include <array>

#include "clora/ops/rowwise/swiglu.hpp"

namespace clora {
namespace {

Shape shape_of(const LinearSpec& expert) { return {expert.outputs, expert.inputs}; }

}  // namespace

ExpertsLayer::ExpertsLayer(Recording& recording, const ExpertsWeights& weights)
    : recording_(recording),
      spec_(weights.spec),
      router_weights_(weights.spec.normalises ? RouterWeights::normalised
                                              : RouterWeights::probabilities),
      router_(recording.adapted(weights.router)),
      gate_(recording, weights.gate, shape_of(weights.spec.gate.front())),
      up_(recording, weights.up, shape_of(weights.spec.up.front())),
      down_(recording, weights.down, shape_of(weights.spec.down.front())) {}

bool ExpertsLayer::has_adapter() const {
  return router_.is_trained() || gate_.has_adapter() || up_.has_adapter() || down_.has_adapter();
}

void ExpertsLayer::route(const Tensor& h) {
  const std::int64_t rows = recording_.rows();
  logits_ = recording_.temporary({rows, spec_.experts()}, "logits of experts");
  record_linear(recording_, router_, logits_, h, {});
  routing_ = make_routing({rows, spec_.experts(), spec_.used},
                          [&](Shape shape, DType type, std::string_view name) {
                            return recording_.batch().temporary(shape, type, name);
                          });
  record_router(recording_.batch(), routing_, logits_, router_weights_);
  recording_.add_load(logits_, routing_);
}

void ExpertsLayer::record_forward(const Tensor& y, const ProductInput& input,
                                  const Tensor& residual) {
  const Tensor h = record_input(recording_.batch(), input);
  route(h);
  const ExpertPlan& plan = routing_.plan;
  if (gate_.has_adapter() || up_.has_adapter()) h_ = h;
  gate_outputs_ = gate_.record_forward(h, ExpertRows::of_entries, plan);
  up_outputs_ = up_.record_forward(h, ExpertRows::of_entries, plan);
  const Tensor product = recording_.activation(gate_outputs_.shape(), "swiglu of experts");
  record_swiglu(recording_.batch(), product, gate_outputs_, up_outputs_, {}, spec_.function);
  outputs_ = down_.record_forward(product, ExpertRows::of_slots, plan);
  record_combine(recording_.batch(), y, outputs_, plan, routing_.weights, residual);
}

Tensor ExpertsLayer::backward_of_outputs(const Tensor& dy) {
  Batch& batch = recording_.batch();
  const ExpertPlan& plan = routing_.plan;
  const Tensor dweights = recording_.temporary(routing_.weights.shape(), "d weights of experts");
  const Tensor doutputs = recording_.like(outputs_, "d output of experts");
  record_combine_backward(batch, {doutputs, dweights}, dy, outputs_, plan, routing_.weights);
  const auto like_gate = [&](std::string_view name) {
    return recording_.activation(gate_outputs_.shape(), name);
  };
  const Tensor dproduct = like_gate("d swiglu of experts");
  down_.record_backward(dproduct, doutputs, plan, Accumulate::no);
  const Tensor& product = dproduct;  // recomputed in place, after dproduct is read
  dgate_ = like_gate("d gate of experts");
  dup_ = like_gate("d up of experts");
  record_swiglu_backward(batch, dgate_, dup_, dproduct, gate_outputs_, up_outputs_, product,
                         spec_.function);
  down_.record_da(product, ExpertRows::of_slots, plan);
  return dweights;
}

// dh = the gradient through the router's logits.
std::vector<PendingGradient> ExpertsLayer::backward_of_router(const Tensor& dh,
                                                              const Tensor& dweights) {
  if (dh.empty() && !router_.is_trained()) return {};
  const Tensor dlogits = recording_.temporary(logits_.shape(), "d logits of experts");
  record_router_backward(recording_.batch(), dlogits, logits_, routing_, dweights, router_weights_);
  recording_.record_balance_backward(dlogits, logits_);
  return record_linears_dx(recording_, dh, std::array{LinearGradient{&router_, dlogits}});
}

std::vector<PendingGradient> ExpertsLayer::record_backward(const Tensor& dh, const Tensor& dy) {
  const ExpertPlan& plan = routing_.plan;
  const Tensor dweights = backward_of_outputs(dy);
  const auto pending = backward_of_router(dh, dweights);
  const Tensor dslots =
      dh.empty() ? Tensor() : recording_.activation({plan.slot_count(), dh.shape()[1]}, "d slots");
  gate_.record_backward(dslots, dgate_, plan, Accumulate::no);
  up_.record_backward(dslots, dup_, plan, Accumulate::yes);
  if (!dh.empty()) record_combine(recording_.batch(), dh, dslots, plan, {}, dh);
  gate_.record_da(h_, ExpertRows::of_entries, plan);
  up_.record_da(h_, ExpertRows::of_entries, plan);
  return pending;
}

}  // namespace clora
