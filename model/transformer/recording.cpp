#include "model/transformer/recording.hpp"

#include <algorithm>
#include <utility>

#include "clora/ops/attention/attention.hpp"
#include "clora/ops/attention/attention_window.hpp"
#include "clora/ops/quant/quant.hpp"
#include "clora/ops/quant/quantise.hpp"
#include "clora/ops/rowwise/add.hpp"
#include "clora/ops/rowwise/cast.hpp"
#include "model/configuration/experts_layer.hpp"
#include "model/transformer/adapter_stacks.hpp"
#include "ops/activations.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void require_row_groups(const RecordingOptions& options, std::int64_t rows) {
  if (options.stacks == nullptr) return;
  require(
      !options.trains && options.policy.feed_forward_rows == 0,
      "recording: rows have adapters of their own only in a pass without a backward and without "
      "tiles of feed-forward rows");
  require_tensor("recording", "row_groups", options.row_groups, {rows, kRowGroupWords}, DType::u32);
}

// Where a view of f32 begins in the tensor, in elements.
std::size_t element_of(const Tensor& view, const Tensor& all) {
  return (view.offset_bytes() - all.offset_bytes()) / sizeof(float);
}

}  // namespace

Recording::Recording(LanguageModel& model, Batch& batch, const RecordingOptions& options)
    : model_(model), batch_(batch), options_(options), rows_(options.rows.positions.elements()) {
  require_row_groups(options, rows_);
  if (!options.casts_adapter || options.adapter == nullptr) return;
  if (!reads_bf16_adapter(batch.context())) return;
  const Tensor& parameters = options.adapter->parameters();
  bf16_adapter_ = batch.temporary(parameters.shape(), DType::bf16, "bf16 adapter");
  record_cast_to_bf16(batch, bf16_adapter_, parameters);
}

const CacheTensors* Recording::cache(std::size_t index) const {
  return options_.caches.empty() ? nullptr : &options_.caches[index];
}

Tensor Recording::temporary(Shape shape, std::string_view name) {
  return batch_.temporary(shape, DType::f32, name);
}

Tensor Recording::activation(Shape shape, std::string_view name) {
  return batch_.temporary(shape, options_.type, name);
}

Tensor Recording::like(const Tensor& tensor, std::string_view name) {
  return batch_.temporary(tensor.shape(), tensor.type(), name);
}

Tensor Recording::norm(const Tensor& x, const NormWeights& weights, std::string_view name) {
  if (weights.empty() && x.type() == options_.type) return x;
  const Tensor y = activation(x.shape(), name);
  if (weights.empty()) {
    record_cast(batch_, y, x);
  } else {
    record_norm(batch_, y, x, weights, epsilon());
  }
  return y;
}

ProductInput Recording::normed_input(const Tensor& x, const NormWeights& weights,
                                     std::string_view name) {
  if (trains() || !weights.is_rms_norm()) return norm(x, weights, name);
  return {activation(x.shape(), name), RmsNormOf{x, weights.w, epsilon()}};
}

Tensor Recording::first_of(RowsOf of, std::int64_t window) {
  const bool is_of_pass = of == RowsOf::pass;
  const Tensor& all = is_of_pass ? options_.rows.first : options_.places.first;
  const Tensor& last = is_of_pass ? options_.rows.last : options_.places.last;
  if (window == 0) return all;
  const auto known = std::ranges::find_if(
      windows_, [&](const Window& each) { return each.of == of && each.window == window; });
  if (known != windows_.end()) return known->first;
  // Not a temporary: decoding in one launch reads it by its address, which one has after seal().
  const Tensor first = batch_.context().allocate(all.shape(), DType::i32, MemoryTag::activations);
  record_attention_window(batch_, first, all, last, window);
  windows_.push_back({of, window, first});
  return first;
}

Tensor Recording::order_of(RowsOf of, std::int64_t window, const KeyRanges& ranges,
                           const AttentionLayerSpec& spec) {
  const auto known = std::ranges::find_if(orders_, [&](const Order& each) {
    return each.of == of && each.window == window && each.heads == spec.heads &&
           each.head_dim == spec.head_dim;
  });
  if (known != orders_.end()) return known->order;
  const Tensor order =
      record_attention_order(batch_, ranges.first, ranges.last, spec.heads, spec.head_dim);
  orders_.push_back({of, window, spec.heads, spec.head_dim, order});
  return order;
}

Recording::KeyRanges Recording::key_ranges(const AttentionLayerSpec& spec, RowsOf of) {
  const std::int64_t window = spec.window.value_or(0);
  KeyRanges ranges{first_of(of, window),
                   of == RowsOf::pass ? options_.rows.last : options_.places.last,
                   {},
                   options_.rows.keys_per_row};
  if (window > 0) ranges.keys_per_row = std::min(ranges.keys_per_row, static_cast<double>(window));
  const bool is_paged = of == RowsOf::pass && !options_.caches.empty();
  if (!is_paged) ranges.order = order_of(of, window, ranges, spec);
  return ranges;
}

Recording::KeyRanges Recording::key_ranges(const AttentionLayerSpec& spec) {
  return key_ranges(spec, RowsOf::pass);
}

Recording::KeyRanges Recording::prompt_key_ranges(const AttentionLayerSpec& spec) {
  return key_ranges(spec, RowsOf::prompts);
}

Tensor Recording::rope_table(const RopeSpec& rope) {
  return model_.rope_table(rope, options_.positions);
}

Tensor Recording::key_rope_table(const RopeSpec& rope) { return rope_table(of_keys(rope)); }

AdaptedLinear Recording::adapted(const LinearLayer& layer) {
  AdaptedLinear linear{.layer = &layer, .weights = layer.weights};
  if (options_.adapter != nullptr) add_saved(linear);
  if (options_.stacks != nullptr) {
    linear.lora = options_.stacks->weights(layer.path, options_.row_groups);
    if (!linear.lora.empty()) return linear;
  }
  if (options_.adapter == nullptr) return linear;
  linear.lora = options_.adapter->weights(layer.path, bf16_adapter_);
  add_magnitudes(linear);
  if (!options_.trains) return linear;
  linear.gradients = options_.adapter->gradients(layer.path);
  add_adapted(linear.gradients);
  linear.lora.dropout = {.probability = static_cast<float>(options_.adapter->config().dropout),
                         .seed_and_step = options_.seed_and_step,
                         .site = layer.number};
  return linear;
}

void Recording::add_saved(AdaptedLinear& linear) {
  const Adapter& adapter = *options_.adapter;
  if (adapter.saved_tensors().empty()) return;
  const std::string w = linear.layer->path + ".weight", bias = linear.layer->path + ".bias";
  const Tensor saved = adapter.saved(w), saved_bias = adapter.saved(bias);
  if (!saved.empty()) {
    const std::size_t at = element_of(saved, adapter.parameters());
    linear.weights.w =
        bf16_adapter_.empty() ? saved : ParameterSet::view(bf16_adapter_, at, saved.shape());
  }
  if (!saved_bias.empty()) linear.weights.bias = saved_bias;
  if (!options_.trains) return;
  linear.dweight = adapter.saved_gradient(w);
  linear.dbias = adapter.saved_gradient(bias);
  if (linear.dbias.empty()) return;
  if (ones_.empty()) {
    const std::vector<float> ones(static_cast<std::size_t>(rows_), 1.0F);
    ones_ = batch_.context().upload<float>({rows_, 1}, DType::f32, ones, MemoryTag::activations);
  }
  linear.ones = ones_;
}

AdaptedNorm Recording::adapted(const NormWeights& norm) {
  AdaptedNorm adapted{norm, {}};
  if (options_.adapter == nullptr || norm.empty()) return adapted;
  const std::string w = norm.path + ".weight", bias = norm.path + ".bias";
  const Tensor saved = options_.adapter->saved(w), saved_bias = options_.adapter->saved(bias);
  if (!saved.empty()) adapted.weights.w = as_read(saved, norm.offset, norm.scale);
  if (!saved_bias.empty()) adapted.weights.bias = as_read(saved_bias, 0, norm.scale);
  if (!options_.trains) return adapted;
  adapted.gradients = {.dw = options_.adapter->saved_gradient(w),
                       .dbias = options_.adapter->saved_gradient(bias),
                       .factor = norm.scale};
  return adapted;
}

Tensor Recording::as_read(const Tensor& saved, float offset, float scale) {
  if (offset == 0 && scale == 1) return saved;
  const Tensor read = like(saved, "saved tensor");
  Tensor added;
  if (offset != 0) {
    const std::vector<float> offsets(static_cast<std::size_t>(saved.elements()), scale * offset);
    added =
        batch_.context().upload<float>(saved.shape(), DType::f32, offsets, MemoryTag::activations);
  }
  record_add(batch_, read, added, saved, scale);
  return read;
}

void Recording::add_adapted(const LoraGradients& gradients) {
  for (const Tensor& part : {gradients.da, gradients.dbt}) {
    if (part.empty()) continue;
    const std::size_t begin = element_of(part, options_.adapter->flat_gradients());
    const std::size_t end = begin + static_cast<std::size_t>(part.elements());
    GradientRange& all = adapted_gradients_;
    all = all.empty() ? GradientRange{begin, end}
                      : GradientRange{std::min(all.begin, begin), std::max(all.end, end)};
  }
}

GradientRange Recording::take_adapted_gradients() { return std::exchange(adapted_gradients_, {}); }

void Recording::add_magnitudes(AdaptedLinear& linear) {
  const std::string& path = linear.layer->path;
  if (linear.lora.empty() || !options_.adapter->config().use_dora) return;
  if (options_.column_scales == nullptr) {
    fail(ErrorCode::unsupported,
         "recording: this pass does not support adapters with magnitudes (DoRA); merge the adapter "
         "into its base model with clora fuse");
  }
  linear.lora.column_scale = options_.column_scales->of(path);
  if (!options_.trains) return;
  linear.magnitude = options_.adapter->magnitude(path);
  linear.dmagnitude = options_.adapter->magnitude_gradient(path);
}

Tensor Recording::save(const Tensor& x) {
  return options_.trains && !options_.policy.checkpoints() ? save_checkpoint(x) : x;
}

Tensor Recording::save_checkpoint(const Tensor& x) {
  const SavedType how = options_.policy.saved;
  const std::int64_t width = x.elements() / x.shape()[0];
  if (how == SavedType::as_computed) return x;
  if (how == SavedType::q8 && width % kElementsOfQ8Block == 0) {
    const Tensor saved = batch_.temporary({x.shape()[0], width}, DType::q8_0, "saved");
    record_quantise(batch_, saved, x.reshape(saved.shape()));
    return saved;
  }
  const DType type = how == SavedType::f16 ? DType::f16 : DType::bf16;
  if (x.type() != DType::f32) return x;
  const Tensor saved = batch_.temporary(x.shape(), type, "saved");
  record_cast(batch_, saved, x);
  return saved;
}

Tensor Recording::restore(const Tensor& saved, const Shape& shape, DType type) {
  if (saved.type() == type) return saved;
  const Tensor x = batch_.temporary(shape, type, "restored");
  if (saved.type() != DType::q8_0) {
    record_cast(batch_, x, saved);
    return x;
  }
  const Tensor wide = type == DType::f32 ? x : temporary(shape, "restored f32");
  record_dequantise(batch_, wide.reshape(saved.shape()), saved);
  if (type != DType::f32) record_cast(batch_, x, wide);
  return x;
}

void Recording::add_load(const Tensor& logits, const Routing& routing) {
  if (options_.balance.empty() || recomputes_) return;
  if (!load_) {
    const ExpertPlan& plan = routing.plan;
    load_ = make_load_balance(
        expert_layers(model_.config()), {plan.rows(), plan.experts(), plan.experts_of_row()},
        options_.balance, [&](Shape shape, DType type, std::string_view name) {
          return batch_.temporary(shape, type, name);
        });
  }
  record_load_of_layer(batch_, *load_, loaded_layers_++, logits, routing.ids);
}

void Recording::record_balance_loss(const Tensor& loss) {
  if (load_) record_load_balance_loss(batch_, loss, *load_, rows_);
}

void Recording::record_balance_backward(const Tensor& dlogits, const Tensor& logits) {
  if (load_) record_load_balance_backward(batch_, dlogits, logits, *load_);
}

}  // namespace clora
