#include "model/transformer/adapted_linears.hpp"

#include <algorithm>

namespace clora {
namespace {

void add_s(Recording& recording, AdaptedLinear& linear) {
  if (!linear.lora.empty()) {
    linear.s = recording.activation({recording.rows(), linear.lora.a.shape()[0]}, "s");
  }
}

// "self_attn.q_proj" of "model.layers.3.self_attn.q_proj"
std::string_view name_in_block(std::string_view path) {
  const std::size_t last = path.rfind('.');
  return path.substr(path.rfind('.', last - 1) + 1);
}

}  // namespace

std::vector<Tensor> record_linears(Recording& recording, const Tensor& x,
                                   std::span<AdaptedLinear* const> linears) {
  std::vector<LoraOutput> outputs;
  for (AdaptedLinear* linear : linears) {
    add_s(recording, *linear);
    outputs.push_back({recording.activation({recording.rows(), linear->outputs()},
                                            name_in_block(linear->layer->path)),
                       linear->s, linear->layer->weights, linear->lora});
  }
  record_lora_linears(recording.batch(), x, outputs);
  std::vector<Tensor> y;
  for (const LoraOutput& output : outputs) y.push_back(output.y);
  return y;
}

void record_linear(Recording& recording, AdaptedLinear& linear, const Tensor& y, const Tensor& x,
                   const Tensor& residual) {
  add_s(recording, linear);
  record_lora_linear(recording.batch(), y, linear.s, x, linear.layer->weights, linear.lora,
                     residual);
}

std::vector<PendingGradient> record_linears_dx(Recording& recording, const Tensor& dx,
                                               std::span<const LinearGradient> dys) {
  std::vector<LoraBranch> branches;
  for (const auto& [linear, dy] : dys) {
    branches.push_back({linear->gradients, dy, linear->s, linear->layer->weights, linear->lora});
  }
  return record_lora_linears_dx(recording.batch(), dx, branches, Accumulate::no,
                                recording.deferred());
}

void record_linears_da(Recording& recording, const Tensor& x,
                       std::span<const PendingGradient> pending) {
  record_lora_linears_da(recording.batch(), x, pending, recording.deferred());
}

}  // namespace clora
