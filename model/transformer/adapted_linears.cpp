#include "model/transformer/adapted_linears.hpp"

#include <algorithm>

#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/columns.hpp"
#include "ops/lora_linear/weight_gradient.hpp"

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

// DoRA with dropout, whose f is a tensor of its own.
void record_dropped(Recording& recording, AdaptedLinear& linear, const Tensor& y, const Tensor& x,
                    const Tensor& residual) {
  const Tensor f = recording.like(y, "dora f");
  record_dora_dropout(recording.batch(), x,
                      {y, f, linear.s, linear.weights, linear.lora, residual});
  linear.f = recording.save(f);
}

// dy' of a layer, and the gradient of its magnitudes; dy itself without magnitudes.
Tensor record_scaled(Recording& recording, const AdaptedLinear& linear, const Tensor& dy) {
  if (!linear.is_decomposed()) return dy;
  const Tensor scaled = recording.like(dy, "dora dy'");
  const bool is_coded = linear.f.type() == DType::q8_0;
  const Tensor f = is_coded ? recording.restore(linear.f, dy.shape(), recording.type()) : linear.f;
  const Tensor bias = linear.has_dropout() ? Tensor() : linear.weights.bias;
  record_dora_backward(recording.batch(), scaled, linear.dmagnitude, dy,
                       {f, bias, linear.lora.column_scale, linear.magnitude},
                       &recording.deferred_magnitudes());
  return scaled;
}

// The gradients of biases that are trained, at once, since dys may change. These may be those of
// some rows of the pass.
void record_biases(Recording& recording, std::span<const LinearGradient> dys) {
  DeferredGradients together;
  for (const auto& [linear, dy] : dys) {
    if (linear->dbias.empty()) continue;
    const Tensor ones = linear->ones.rows(0, dy.shape()[0]);
    together.add(recording.batch(), bias_gradient(linear->dbias, dy, ones));
  }
  together.flush(recording.batch());
}

// The layer's branch of the backward of plain adapters.
LoraBranch branch_of(const AdaptedLinear& linear, const Tensor& scaled) {
  LoraWeights lora = linear.lora;
  lora.column_scale = {};
  return {linear.gradients, scaled, linear.s, linear.weights, lora};
}

}  // namespace

std::vector<Tensor> record_linears(Recording& recording, const ProductInput& x,
                                   std::span<AdaptedLinear* const> linears) {
  const std::int64_t rows = x.x.shape()[0];
  std::vector<LoraOutput> outputs;
  std::vector<Tensor> all;
  for (AdaptedLinear* linear : linears) {
    add_s(recording, *linear, rows);
    const Tensor y =
        recording.activation({rows, linear->outputs()}, name_in_block(linear->layer->path));
    all.push_back(y);
    if (linear->is_decomposed() && linear->has_dropout()) {
      record_dropped(recording, *linear, y, x.x, {});
      continue;
    }
    if (linear->is_decomposed()) linear->f = y;
    outputs.push_back({y, linear->s, linear->weights, linear->lora});
  }
  if (!outputs.empty()) record_lora_linears(recording.batch(), x, outputs);
  return all;
}

void record_linear(Recording& recording, AdaptedLinear& linear, const Tensor& y,
                   const ProductInput& x, const Tensor& residual) {
  add_s(recording, linear, x.x.shape()[0]);
  LoraOutput output{y, linear.s, linear.weights, linear.lora, residual};
  if (linear.is_decomposed() && linear.has_dropout()) {
    return record_dropped(recording, linear, y, x.x, residual);
  }
  const bool is_apart = linear.is_decomposed() && !residual.empty();
  if (is_apart) {
    output.y = recording.activation(y.shape(), name_in_block(linear.layer->path));
    output.residual = {};
  }
  record_lora_linears(recording.batch(), x, {&output, 1});
  if (linear.is_decomposed()) linear.f = recording.save(output.y);
  if (is_apart) record_add(recording.batch(), y, residual, output.y);
}

std::vector<PendingGradient> record_linears_dx(Recording& recording, const Tensor& dx,
                                               std::span<const LinearGradient> dys,
                                               DoraScaled scaled) {
  record_biases(recording, dys);
  std::vector<LoraBranch> branches;
  std::vector<PendingGradient> all;
  Accumulate accumulate = Accumulate::no;
  for (const auto& [linear, dy] : dys) {
    if (!linear->dweight.empty()) all.push_back({linear->dweight, dy, {}, true});
    const bool is_scaled = scaled == DoraScaled::yes;
    const LoraBranch branch =
        branch_of(*linear, is_scaled ? dy : record_scaled(recording, *linear, dy));
    if (!linear->is_decomposed() || !linear->has_dropout()) {
      branches.push_back(branch);
      continue;
    }
    all.push_back(record_dora_dropout_dx(recording.batch(), dx, dy, branch, accumulate,
                                         recording.deferred()));
    accumulate = Accumulate::yes;
  }
  if (branches.empty()) return all;
  const auto others =
      record_lora_linears_dx(recording.batch(), dx, branches, accumulate, recording.deferred());
  all.insert(all.end(), others.begin(), others.end());
  return all;
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
  return std::ranges::any_of(linears_, &AdaptedLinear::is_trained);
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

bool JoinedLinears::reads_outputs() const {
  return std::ranges::any_of(
      linears_, [](const auto& each) { return each.is_decomposed() && !each.has_dropout(); });
}

void JoinedLinears::set_outputs(std::span<const Tensor> outputs) {
  if (!reads_outputs()) return;
  if (is_one()) {
    linears_.front().f = joined(outputs, "joined outputs");
    return;
  }
  for (std::size_t i = 0; i < linears_.size(); ++i) linears_[i].f = outputs[i];
}

std::vector<DoraFactors> JoinedLinears::dora_factors() const {
  std::vector<DoraFactors> all;
  for (const AdaptedLinear& each : linears_) {
    const bool has_bias = !each.weights.bias.empty();
    if (is_one() || !each.is_decomposed() || each.has_dropout() || has_bias) return {};
    all.push_back({each.lora.column_scale, each.magnitude, each.dmagnitude});
  }
  return all;
}

Tensor JoinedLinears::joined(std::span<const Tensor> parts, std::string_view name) {
  const Tensor all =
      recording_.activation({parts.front().shape()[0], linears_.front().outputs()}, name);
  std::int64_t begin = 0;
  for (const Tensor& part : parts) {
    record_put_columns(recording_.batch(), all, begin, part);
    begin += part.shape()[1];
  }
  return all;
}

std::vector<PendingGradient> JoinedLinears::record_backward(const Tensor& dx,
                                                            std::span<const Tensor> dys,
                                                            DoraScaled scaled) {
  std::vector<LinearGradient> gradients;
  if (is_one()) {
    gradients.emplace_back(&linears_.front(), joined(dys, "d joined"));
  } else {
    for (std::size_t i = 0; i < linears_.size(); ++i) gradients.emplace_back(&linears_[i], dys[i]);
  }
  return record_linears_dx(recording_, dx, gradients, scaled);
}

}  // namespace clora
