#include "model/transformer/layer_loader.hpp"

#include "model/transformer/position_bias.hpp"
#include "model/transformer/rope_table.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

AttentionLayerSpec at_length(AttentionLayerSpec spec, std::int64_t length) {
  if (spec.rope) spec.rope = at_length(*spec.rope, length);
  return spec;
}

}  // namespace

Tensor LayerLoader::parameter(const ParameterSpec& spec) {
  return tensors_.vector(prefix_ + spec.names.hugging_face, spec.width);
}

Tensor LayerLoader::taps(const ParameterSpec& spec) {
  return tensors_.taps(prefix_ + spec.names.hugging_face, spec.width, spec.taps);
}

NormWeights LayerLoader::final_norm() {
  prefix_.clear();
  const ModelConfig& c = tensors_.config();
  return norm(c.final_norm, static_cast<float>(c.logit_scale));
}

NormWeights LayerLoader::embedding_norm() { return norm(tensors_.config().embedding.norm); }

Tensor LayerLoader::position_embeddings() {
  const ModelConfig& c = tensors_.config();
  const EmbeddingSpec& spec = c.embedding;
  if (spec.position_rows == 0) return {};
  std::vector<float> sum =
      tensors_.floats(spec.positions.hugging_face + ".weight", {spec.position_rows, c.hidden_size});
  sum.erase(sum.begin(), sum.begin() + spec.skipped_positions * c.hidden_size);
  if (spec.segment_rows > 0) {
    const auto segments =
        tensors_.floats(spec.segments.hugging_face + ".weight", {spec.segment_rows, c.hidden_size});
    const auto D = static_cast<std::size_t>(c.hidden_size);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += segments[i % D];
  }
  return tensors_.context().upload<float>(
      {spec.position_rows - spec.skipped_positions, c.hidden_size}, DType::f32, sum,
      MemoryTag::weights);
}

Tensor LayerLoader::position_bias() {
  const ModelConfig& c = tensors_.config();
  const PositionBiasSpec& spec = c.position_bias;
  if (spec.buckets == 0) return {};
  const auto table = tensors_.floats(spec.names.hugging_face + ".weight", {spec.buckets, c.heads});
  return tensors_.context().upload<float>({c.heads, 2 * c.max_positions - 1}, DType::f32,
                                          bias_by_distance(table, spec, c.heads, c.max_positions),
                                          MemoryTag::weights);
}

BlockWeights LayerLoader::block(std::size_t layer) {
  prefix_ = fmt::format("{}{}.", tensors_.config().block_prefix, layer);
  BlockWeights block;
  for (const SubLayerSpec& spec : tensors_.config().blocks[layer]) {
    SubLayerWeights weights;
    weights.norm = norm(spec.norm);
    std::visit([&](const auto& f) { weights.f = load(f); }, spec.f);
    weights.post_norm = norm(spec.post_norm);
    weights.sum_norm = norm(spec.sum_norm);
    weights.multiplier = static_cast<float>(spec.multiplier);
    block.push_back(std::move(weights));
  }
  return block;
}

void LayerLoader::skip(const BlockSpec& block) {
  for (const SubLayerSpec& layer : block) {
    const bool has_router_only = std::holds_alternative<ExpertsLayerSpec>(layer.f);
    linears_ += has_router_only ? 1 : static_cast<std::uint32_t>(linears_of(layer).size());
  }
}

NormWeights LayerLoader::norm(const NormSpec& spec, float scale) {
  if (!spec.exists()) return {};
  const std::string name = prefix_ + spec.names.hugging_face;
  return {.path = name,
          .w = tensors_.vector(name + ".weight", spec.width, scale),
          .bias = spec.has_bias ? tensors_.vector(name + ".bias", spec.width, scale) : Tensor(),
          .offset = spec.plus_one ? 1.0F : 0.0F,
          .scale = scale};
}

NormWeights LayerLoader::norm(const std::optional<NormSpec>& spec) {
  return spec ? norm(*spec) : NormWeights();
}

std::vector<LinearLayer> LayerLoader::linears(const std::optional<LinearSpec>& joined,
                                              std::initializer_list<const LinearSpec*> separate) {
  if (joined) return {linear(*joined)};
  std::vector<LinearLayer> layers;
  for (const LinearSpec* spec : separate) layers.push_back(linear(*spec));
  return layers;
}

LinearLayer LayerLoader::linear(const LinearSpec& spec) {
  LinearLayer layer{.path = prefix_ + spec.names.hugging_face, .number = linears_++, .weights = {}};
  layer.weights.w = tensors_.matrix(layer.path + ".weight", {spec.outputs, spec.inputs});
  if (spec.has_bias) layer.weights.bias = tensors_.vector(layer.path + ".bias", spec.outputs);
  return layer;
}

AttentionWeights LayerLoader::load(const AttentionLayerSpec& spec) {
  AttentionWeights weights{.spec = at_length(spec, options_.context_length),
                           .qkv = linears(spec.qkv, {&spec.q, &spec.k, &spec.v}),
                           .o = linear(spec.o),
                           .q_norm = norm(spec.q_norm),
                           .k_norm = norm(spec.k_norm),
                           .cache_index = caches_++};
  return weights;
}

FeedForwardWeights LayerLoader::load(const FeedForwardLayerSpec& spec) {
  return {.spec = spec,
          .gate_up = linears(spec.gate_up, {&spec.gate, &spec.up}),
          .down = linear(spec.down)};
}

MlpWeights LayerLoader::load(const MlpLayerSpec& spec) {
  return {.spec = spec, .up = linear(spec.up), .down = linear(spec.down)};
}

ShortConvWeights LayerLoader::load(const ShortConvLayerSpec& spec) {
  return {.spec = spec,
          .in = linear(spec.in),
          .out = linear(spec.out),
          .taps = taps(spec.taps),
          .bias = spec.bias ? parameter(*spec.bias) : Tensor(),
          .cache_index = caches_++};
}

DeltaNetWeights LayerLoader::load(const DeltaNetLayerSpec& spec) {
  return {.spec = spec,
          .in = linears({}, {&spec.qkv, &spec.z, &spec.b, &spec.a}),
          .taps = taps(spec.taps),
          .rate = parameter(spec.rate),
          .dt_bias = parameter(spec.dt_bias),
          .norm = norm(spec.norm),
          .out = linear(spec.out),
          .cache_index = caches_++};
}

StackedLinears LayerLoader::stacked_linears(const std::vector<LinearSpec>& experts) {
  StackedLinears linears;
  std::vector<std::string> names;
  for (const LinearSpec& spec : experts) {
    linears.paths.push_back(prefix_ + spec.names.hugging_face);
    names.push_back(linears.paths.back() + ".weight");
  }
  linears.w = tensors_.stack(names, {experts.front().outputs, experts.front().inputs});
  return linears;
}

ExpertsWeights LayerLoader::load(const ExpertsLayerSpec& spec) {
  return {.spec = spec,
          .router = linear(spec.router),
          .gate = stacked_linears(spec.gate),
          .up = stacked_linears(spec.up),
          .down = stacked_linears(spec.down)};
}

}  // namespace clora
