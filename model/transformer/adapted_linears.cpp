#include "model/transformer/adapted_linears.hpp"

#include <algorithm>

#include "clora/ops/rowwise/columns.hpp"

namespace clora {
namespace {

// More than a model has linear layers, so that every tile of every layer has its own masks.
constexpr std::uint32_t kSitesOfTile = 1U << 16U;

void add_s(Recording& recording, AdaptedLinear& linear, std::int64_t rows) {
  if (!linear.lora.empty()) linear.s = recording.activation({rows, linear.lora.rank()}, "s");
}

// "self_attn.q_proj" of "model.layers.3.self_attn.q_proj"
std::string_view name_in_block(std::string_view path) {
  const std::size_t last = path.rfind('.');
  return path.substr(path.rfind('.', last - 1) + 1);
}

}  // namespace

std::vector<Tensor> record_linears(Recording& recording, const ProductInput& x,
                                   std::span<AdaptedLinear* const> linears) {
  const std::int64_t rows = x.x.shape()[0];
  std::vector<LoraOutput> outputs;
  for (AdaptedLinear* linear : linears) {
    add_s(recording, *linear, rows);
    outputs.push_back(
        {recording.activation({rows, linear->outputs()}, name_in_block(linear->layer->path)),
         linear->s, linear->layer->weights, linear->lora});
  }
  record_lora_linears(recording.batch(), x, outputs);
  std::vector<Tensor> y;
  for (const LoraOutput& output : outputs) y.push_back(output.y);
  return y;
}

void record_linear(Recording& recording, AdaptedLinear& linear, const Tensor& y,
                   const ProductInput& x, const Tensor& residual) {
  add_s(recording, linear, x.x.shape()[0]);
  const LoraOutput output{y, linear.s, linear.layer->weights, linear.lora, residual};
  record_lora_linears(recording.batch(), x, {&output, 1});
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

void set_tile(AdaptedLinear& linear, std::int64_t tile) {
  if (linear.lora.empty()) return;
  linear.lora.dropout.site = linear.layer->number + static_cast<std::uint32_t>(tile) * kSitesOfTile;
}

JoinedLinears::JoinedLinears(Recording& recording, const std::vector<LinearLayer>& layers,
                             std::vector<std::int64_t> widths)
    : recording_(recording), widths_(std::move(widths)) {
  for (const LinearLayer& layer : layers) linears_.push_back(recording.adapted(layer));
}

bool JoinedLinears::has_adapter() const {
  return std::ranges::any_of(linears_, [](const auto& each) { return !each.lora.empty(); });
}

void JoinedLinears::set_tile(std::int64_t tile) {
  for (AdaptedLinear& linear : linears_) clora::set_tile(linear, tile);
}

std::vector<Tensor> JoinedLinears::record_forward(const ProductInput& x) {
  std::vector<AdaptedLinear*> all;
  for (AdaptedLinear& linear : linears_) all.push_back(&linear);
  std::vector<Tensor> y = record_linears(recording_, x, all);
  if (!is_one()) return y;
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t width : widths_) {
    parts.push_back(recording_.activation({x.x.shape()[0], width}, "part of a linear layer"));
    record_take_columns(recording_.batch(), parts.back(), y.front(), begin);
    begin += width;
  }
  return parts;
}

std::vector<PendingGradient> JoinedLinears::record_backward(const Tensor& dx,
                                                            std::span<const Tensor> dys) {
  std::vector<LinearGradient> gradients;
  if (is_one()) {
    const Tensor dy =
        recording_.activation({dys.front().shape()[0], linears_.front().outputs()}, "d joined");
    std::int64_t begin = 0;
    for (const Tensor& part : dys) {
      record_put_columns(recording_.batch(), dy, begin, part);
      begin += part.shape()[1];
    }
    gradients.emplace_back(&linears_.front(), dy);
  } else {
    for (std::size_t i = 0; i < linears_.size(); ++i) gradients.emplace_back(&linears_[i], dys[i]);
  }
  return record_linears_dx(recording_, dx, gradients);
}

}  // namespace clora
