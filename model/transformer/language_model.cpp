#include "clora/model/transformer/language_model.hpp"

#include <algorithm>
#include <limits>

#include "clora/ops/quant/quant.hpp"
#include "model/files/dequantise.hpp"
#include "model/transformer/position_bias.hpp"
#include "model/transformer/rope_table.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

std::size_t stored_bytes(const WeightFiles& files) {
  std::size_t bytes = 0;
  for (const WeightView& view : files.all()) bytes += view.bytes.size();
  return bytes;
}

WeightForm form_of(const Context& context, const WeightView& view) {
  return preferred_form(context, view.shape, view.type);
}

bool lies_where_kernels_read(const Context& context, std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % weight_alignment_bytes(context) == 0;
}

// Whether the device reads the weight from the mapped file.
bool stays_in_file(Context& context, const WeightView& view, const WeightForm& form) {
  return context.config().wrap_files && !needs_reordering(view) &&
         lies_where_kernels_read(context, view.bytes) && form.layout == Layout::plain &&
         context.transfers().can_wrap(view.bytes, view.type);
}

AttentionLayerSpec at_length(AttentionLayerSpec spec, std::int64_t length) {
  if (spec.rope) spec.rope = at_length(*spec.rope, length);
  return spec;
}

// The longest context for which ropes at_length(rope, length) are right.
std::int64_t longest_context(const ModelConfig& config, std::int64_t length) {
  std::int64_t longest = std::numeric_limits<std::int64_t>::max();
  for (const AttentionLayerSpec* attention : attentions_of(config)) {
    if (!attention->rope) continue;
    const RopeScaling& scaling = attention->rope->scaling;
    const bool is_long = length > scaling.original_max_positions;
    if (scaling.kind == RopeScaling::Kind::dynamic) {
      longest = std::min(longest, std::max(length, scaling.original_max_positions));
    } else if (scaling.kind == RopeScaling::Kind::longrope && !is_long) {
      longest = std::min(longest, scaling.original_max_positions);
    }
  }
  return longest;
}

// The matrices of `views` as one, one after the other: where they lie, if they do so in a file.
WeightView stacked(const std::vector<WeightView>& views) {
  WeightView all = views.front();
  all.shape = {all.shape[0] * static_cast<std::int64_t>(views.size()), all.shape[1]};
  const std::size_t bytes = all.bytes.size();
  bool are_adjacent = true;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i].type != all.type)
      fail(ErrorCode::unsupported,
           "{}: tensors {} and {} have the types {} and {}; those of all experts must be the same",
           views[i].file.string(), all.stored_name, views[i].stored_name, name_of(all.type),
           name_of(views[i].type));
    are_adjacent = are_adjacent && views[i].bytes.data() == all.bytes.data() + i * bytes;
  }
  if (are_adjacent) {
    all.bytes = {all.bytes.data(), views.size() * bytes};
    return all;
  }
  const auto copy = std::make_shared<std::vector<std::byte>>();
  copy->reserve(views.size() * bytes);
  for (const WeightView& view : views)
    copy->insert(copy->end(), view.bytes.begin(), view.bytes.end());
  all.bytes = *copy;
  all.mapping = copy;
  return all;
}

// Loads tensors from a model's files to the device, by name.
class Loader {
 public:
  Loader(Context& context, const WeightFiles& files, const LoadOptions& options)
      : context_(context), files_(files), options_(options), wanted_(stored_bytes(files)) {
    report(0);
  }

  // Returns a matrix in its storage type, in as few parts as the device permits: in the mapped
  // file, or streamed to the device in the best layout for it.
  Weight matrix(const std::string& name, Shape shape) {
    const WeightView view = files_.get(name, shape);
    return matrix(view, form_of(context_, view));
  }
  // The same of the matrices of all experts, in the form that suits each of them, as one.
  Weight stack(const std::vector<LinearSpec>& experts) {
    std::vector<WeightView> views;
    for (const LinearSpec& spec : experts) {
      const std::string name = prefix_ + spec.names.hugging_face + ".weight";
      views.push_back(files_.get(name, {spec.outputs, spec.inputs}));
    }
    Weight weight = matrix(stacked(views), form_of(context_, views.front()));
    if (weight.is_split())
      fail(
          ErrorCode::out_of_memory,
          "{}: the {} matrices of experts such as {} need {} MiB in one allocation, the largest on "
          "'{}' is {} MiB; use a model with lower-bit quantisation, or another device",
          views.front().file.string(), views.size(), views.front().stored_name,
          weight.bytes() >> 20U, context_.device().name,
          context_.device().max_allocation_bytes >> 20U);
    return weight;
  }
  // Returns a vector times `scale`, as f32 for any storage type: norms and biases are small.
  Tensor vector(const std::string& name, std::int64_t elements, float scale = 1) {
    const WeightView view = files_.get(name, {elements});
    std::vector<std::byte> ordered;
    std::vector<float> values =
        to_float(view.type, in_order(view, ordered), static_cast<std::size_t>(elements));
    for (float& value : values) value = model_value(view, value) * scale;
    Tensor tensor = context_.upload<float>({elements}, DType::f32, values, MemoryTag::weights);
    count(tensor.bytes(), view.bytes.size());
    return tensor;
  }

  // Returns the taps [W, C] of a convolution by their lag, the file's [C, 1, W] in reverse.
  Tensor taps(const ParameterSpec& spec) {
    const WeightView view =
        files_.get(prefix_ + spec.names.hugging_face, {spec.width, 1, spec.taps});
    const auto C = static_cast<std::size_t>(spec.width), W = static_cast<std::size_t>(spec.taps);
    std::vector<std::byte> ordered;
    const std::vector<float> stored = to_float(view.type, in_order(view, ordered), C * W);
    std::vector<float> values(stored.size());
    for (std::size_t c = 0; c < C; ++c) {
      for (std::size_t lag = 0; lag < W; ++lag) values[lag * C + c] = stored[c * W + W - 1 - lag];
    }
    const Tensor tensor =
        context_.upload<float>({spec.taps, spec.width}, DType::f32, values, MemoryTag::weights);
    count(tensor.bytes(), view.bytes.size());
    return tensor;
  }
  Tensor parameter(const ParameterSpec& spec) {
    return vector(prefix_ + spec.names.hugging_face, spec.width);
  }

  // Also multiplied by the scale of the logits, which are linear in it.
  NormWeights final_norm() {
    prefix_.clear();
    const ModelConfig& c = files_.config();
    return norm(c.final_norm, static_cast<float>(c.logit_scale));
  }

  NormWeights embedding_norm() { return norm(files_.config().embedding.norm); }

  // Returns the embeddings of positions, each with that of the first segment: [P, D] f32, or empty.
  Tensor position_embeddings() {
    const ModelConfig& c = files_.config();
    const EmbeddingSpec& spec = c.embedding;
    if (spec.position_rows == 0) return {};
    std::vector<float> sum = floats_of(spec.positions, {spec.position_rows, c.hidden_size});
    sum.erase(sum.begin(), sum.begin() + spec.skipped_positions * c.hidden_size);
    if (spec.segment_rows > 0) {
      const auto segments = floats_of(spec.segments, {spec.segment_rows, c.hidden_size});
      const auto D = static_cast<std::size_t>(c.hidden_size);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += segments[i % D];
    }
    return context_.upload<float>({spec.position_rows - spec.skipped_positions, c.hidden_size},
                                  DType::f32, sum, MemoryTag::weights);
  }

  Tensor position_bias() {
    const ModelConfig& c = files_.config();
    const PositionBiasSpec& spec = c.position_bias;
    if (spec.buckets == 0) return {};
    const std::vector<float> table = floats_of(spec.names, {spec.buckets, c.heads});
    return context_.upload<float>({c.heads, 2 * c.max_positions - 1}, DType::f32,
                                  bias_by_distance(table, spec, c.heads, c.max_positions),
                                  MemoryTag::weights);
  }

  BlockWeights block(std::size_t layer) {
    prefix_ = fmt::format("{}{}.", files_.config().block_prefix, layer);
    BlockWeights block;
    for (const SubLayerSpec& spec : files_.config().blocks[layer]) {
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

  std::size_t bytes() const { return bytes_; }

 private:
  Weight matrix(const WeightView& view, const WeightForm& form) {
    const std::size_t row_bytes = bytes_of(form.type, static_cast<std::size_t>(view.shape[1]));
    const bool stays = stays_in_file(context_, view, form);
    std::vector<Tensor> parts;
    for (const RowRange& rows : part_rows(context_.device(), view.name, view.shape[0], row_bytes)) {
      Tensor part = stays ? wrap(view, rows) : Tensor();
      if (part.empty()) part = copy(view, rows, form);
      parts.push_back(part);
    }
    Weight weight(std::move(parts));
    count(weight.bytes(), view.bytes.size());
    return weight;
  }
  NormWeights norm(const NormSpec& spec, float scale = 1) {
    if (!spec.exists()) return {};
    const std::string name = prefix_ + spec.names.hugging_face;
    return {vector(name + ".weight", spec.width, scale),
            spec.has_bias ? vector(name + ".bias", spec.width, scale) : Tensor()};
  }
  NormWeights norm(const std::optional<NormSpec>& spec) {
    return spec ? norm(*spec) : NormWeights();
  }
  std::vector<float> floats_of(const TensorNames& names, const Shape& shape) {
    const WeightView view = files_.get(names.hugging_face + ".weight", shape);
    count(4 * static_cast<std::size_t>(shape.elements()), view.bytes.size());
    return to_float(view.type, view.bytes, static_cast<std::size_t>(shape.elements()));
  }
  std::vector<LinearLayer> linears(const std::optional<LinearSpec>& joined,
                                   std::initializer_list<const LinearSpec*> separate) {
    if (joined) return {linear(*joined)};
    std::vector<LinearLayer> layers;
    for (const LinearSpec* spec : separate) layers.push_back(linear(*spec));
    return layers;
  }
  LinearLayer linear(const LinearSpec& spec) {
    LinearLayer layer{
        .path = prefix_ + spec.names.hugging_face, .number = linears_++, .weights = {}};
    layer.weights.w = matrix(layer.path + ".weight", {spec.outputs, spec.inputs});
    if (spec.has_bias) layer.weights.bias = vector(layer.path + ".bias", spec.outputs);
    return layer;
  }
  AttentionWeights load(const AttentionLayerSpec& spec) {
    AttentionWeights weights{.spec = at_length(spec, options_.context_length),
                             .qkv = linears(spec.qkv, {&spec.q, &spec.k, &spec.v}),
                             .o = linear(spec.o),
                             .q_norm = norm(spec.q_norm).w,
                             .k_norm = norm(spec.k_norm).w,
                             .cache_index = caches_++};
    return weights;
  }
  FeedForwardWeights load(const FeedForwardLayerSpec& spec) {
    return {.spec = spec,
            .gate_up = linears(spec.gate_up, {&spec.gate, &spec.up}),
            .down = linear(spec.down)};
  }
  MlpWeights load(const MlpLayerSpec& spec) {
    return {.spec = spec, .up = linear(spec.up), .down = linear(spec.down)};
  }
  ShortConvWeights load(const ShortConvLayerSpec& spec) {
    return {.spec = spec,
            .in = linear(spec.in),
            .out = linear(spec.out),
            .taps = taps(spec.taps),
            .bias = spec.bias ? parameter(*spec.bias) : Tensor(),
            .cache_index = caches_++};
  }
  DeltaNetWeights load(const DeltaNetLayerSpec& spec) {
    return {.spec = spec,
            .in = linears({}, {&spec.qkv, &spec.z, &spec.b, &spec.a}),
            .taps = taps(spec.taps),
            .rate = parameter(spec.rate),
            .dt_bias = parameter(spec.dt_bias),
            .norm = norm(spec.norm).w,
            .out = linear(spec.out),
            .cache_index = caches_++};
  }
  StackedLinears stacked_linears(const std::vector<LinearSpec>& experts) {
    StackedLinears linears{.paths = {}, .w = stack(experts)};
    for (const LinearSpec& spec : experts) {
      linears.paths.push_back(prefix_ + spec.names.hugging_face);
    }
    return linears;
  }
  ExpertsWeights load(const ExpertsLayerSpec& spec) {
    return {.spec = spec,
            .router = linear(spec.router),
            .gate = stacked_linears(spec.gate),
            .up = stacked_linears(spec.up),
            .down = stacked_linears(spec.down)};
  }

  static std::span<const std::byte> bytes_of_rows(const WeightView& view, const RowRange& rows) {
    const std::size_t row_bytes = row_bytes_of(view);
    return view.bytes.subspan(static_cast<std::size_t>(rows.begin) * row_bytes,
                              static_cast<std::size_t>(rows.count) * row_bytes);
  }
  // Empty if the driver refuses the memory.
  Tensor wrap(const WeightView& view, const RowRange& rows) {
    return context_.transfers().wrap(bytes_of_rows(view, rows), {rows.count, view.shape[1]},
                                     view.type, view.mapping);
  }
  Tensor copy(const WeightView& view, const RowRange& rows, const WeightForm& form) {
    const Tensor tensor =
        context_.allocate({rows.count, view.shape[1]}, form.type, MemoryTag::weights);
    if (form.layout == Layout::packed) return in_packed_panels(tensor, view, rows.begin);
    if (!needs_reordering(view)) {
      context_.write(tensor, bytes_of_rows(view, rows));
      return tensor;
    }
    const std::size_t row_bytes = row_bytes_of(view);
    context_.transfers().stream(
        tensor, row_bytes, [&](std::span<std::byte> chunk, std::size_t offset_bytes) {
          const auto row = static_cast<std::int64_t>(offset_bytes / row_bytes);
          copy_in_hugging_face_order(chunk, view, rows.begin + row);
        });
    return tensor;
  }
  // Fills `tensor` with rows of the view, from `first` on, in packed panels and returns it.
  Tensor in_packed_panels(const Tensor& tensor, const WeightView& view, std::int64_t first) {
    const std::size_t row_bytes = row_bytes_of(view);
    const std::size_t packed_bytes = tensor.bytes() / static_cast<std::size_t>(tensor.shape()[0]);
    const bool reorders = needs_reordering(view);
    std::vector<std::byte> ordered;
    context_.transfers().stream(
        tensor, static_cast<std::size_t>(kPackedRows) * packed_bytes,
        [&](std::span<std::byte> chunk, std::size_t offset_bytes) {
          const std::size_t row = static_cast<std::size_t>(first) + offset_bytes / packed_bytes;
          std::span<const std::byte> rows =
              view.bytes.subspan(row * row_bytes, chunk.size() / packed_bytes * row_bytes);
          if (reorders) {
            ordered.resize(rows.size());
            copy_in_hugging_face_order(ordered, view, static_cast<std::int64_t>(row));
            rows = ordered;
          }
          pack_panels(chunk, rows, view.shape[1], view.type, tensor.type());
        });
    return tensor.in_layout(Layout::packed);
  }
  static std::size_t row_bytes_of(const WeightView& view) {
    return view.bytes.size() / static_cast<std::size_t>(view.shape[0]);
  }
  // Returns the view's bytes; if its rows are not in Hugging Face's order, fills `ordered` with the
  // reordered rows and returns that.
  std::span<const std::byte> in_order(const WeightView& view,
                                      std::vector<std::byte>& ordered) const {
    if (!needs_reordering(view)) return view.bytes;
    ordered = in_hugging_face_order(view);
    return ordered;
  }
  void count(std::size_t on_device, std::size_t stored) {
    bytes_ += on_device;
    read_ += stored;
    report(std::min(1.0, static_cast<double>(read_) / static_cast<double>(wanted_)));
  }
  void report(double fraction) const {
    if (!options_.progress || options_.progress(fraction)) return;
    fail(ErrorCode::cancelled, "model: loading was cancelled at {:.0f} %", 100 * fraction);
  }

  Context& context_;
  const WeightFiles& files_;
  const LoadOptions& options_;
  std::string prefix_;  // of the block's names
  std::uint32_t linears_ = 0;
  std::size_t caches_ = 0;
  std::size_t wanted_;     // bytes of the files
  std::size_t read_ = 0;   // bytes of the files
  std::size_t bytes_ = 0;  // bytes of the tensors
};

// Throws Error(out_of_memory), before the first copy, if the model does not fit.
void require_free_memory(Context& context, const WeightFiles& files) {
  std::size_t wanted = 0;
  for (const WeightView& view : files.all()) {
    const WeightForm form = form_of(context, view);
    if (stays_in_file(context, view, form)) continue;
    wanted += bytes_of(form.type, static_cast<std::size_t>(view.shape.elements()));
  }
  const MemoryStatistics pool = context.pool().statistics();
  const std::size_t free = pool.limit_bytes - std::min(pool.limit_bytes, pool.in_use_bytes);
  if (wanted <= free) return;
  fail(ErrorCode::out_of_memory,
       "model: the weights need {} MiB, '{}' has {} MiB free of {} MiB; use a smaller model, one "
       "with lower-bit quantisation, or another device",
       wanted >> 20U, context.device().name, free >> 20U, pool.limit_bytes >> 20U);
}

// transformers and llama.cpp ignore these keys too, but they may have been set for a reason.
void warn_of_unread_keys(const Context& context, const ModelConfig& config) {
  if (config.unread_keys.empty()) return;
  context.hooks().log_message(
      LogLevel::warning,
      fmt::format("model {}: its configuration has keys that are ignored for a {} model: {}",
                  config.name, config.family, fmt::join(config.unread_keys, ", ")));
}

// Whether a layer is one of `target_modules`. Routers have to be named: the Linear layers of
// transformers' models, which PEFT means by all-linear, do not contain them.
bool is_wanted(const LinearSpec& linear, const std::vector<std::string>& target_modules) {
  const std::string name = "." + linear.names.hugging_face;
  return std::ranges::any_of(target_modules, [&](const std::string& target) {
    return target == "all-linear" ? !linear.is_router : name.ends_with("." + target);
  });
}

// The layers of the blocks from `begin` on that `wants`.
template <class Wants>
std::vector<AdapterSite> sites_of(const ModelConfig& config, std::int64_t begin, Wants wants) {
  std::vector<AdapterSite> sites;
  for (std::int64_t block = begin; block < config.layers; ++block) {
    for (const SubLayerSpec& layer : config.blocks[static_cast<std::size_t>(block)]) {
      for (const LinearSpec* linear : linears_of(layer)) {
        if (!wants(*linear)) continue;
        sites.push_back(
            {fmt::format("{}{}.{}", config.block_prefix, block, linear->names.hugging_face),
             linear->inputs, linear->outputs});
      }
    }
  }
  return sites;
}

// "q_proj" of "self_attn.q_proj"
std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// The last name parts of all linear layers, each once, in the order of computation.
std::vector<std::string> linear_names(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const BlockSpec& block : config.blocks) {
    for (const SubLayerSpec& layer : block) {
      for (const LinearSpec* linear : linears_of(layer)) {
        std::string name = last_part(linear->names.hugging_face);
        if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
      }
    }
  }
  return names;
}

void require_known(const ModelConfig& config, const std::vector<std::string>& target_modules) {
  const std::vector<std::string> names = linear_names(config);
  for (const std::string& target : target_modules) {
    require(target == "all-linear" || std::ranges::find(names, target) != names.end(),
            "target modules: '{}' is not a linear layer of this model; choose from {}, or "
            "all-linear for all of them",
            target, fmt::join(names, ", "));
  }
}

using Linears = std::vector<const LinearLayer*>;

Linears all_of(const std::vector<LinearLayer>& layers, const LinearLayer& last) {
  Linears all;
  for (const LinearLayer& each : layers) all.push_back(&each);
  all.push_back(&last);
  return all;
}

Linears linears_in(const AttentionWeights& f) { return all_of(f.qkv, f.o); }
Linears linears_in(const FeedForwardWeights& f) { return all_of(f.gate_up, f.down); }
Linears linears_in(const ExpertsWeights& f) { return {&f.router}; }
Linears linears_in(const ShortConvWeights& f) { return {&f.in, &f.out}; }
Linears linears_in(const DeltaNetWeights& f) { return all_of(f.in, f.out); }
Linears linears_in(const MlpWeights& f) { return {&f.up, &f.down}; }

const LinearLayer* find_linear(const SubLayerWeights& layer, std::string_view path) {
  const Linears all = std::visit([](const auto& f) { return linears_in(f); }, layer.f);
  const auto at = std::ranges::find(all, path, [](const LinearLayer* each) { return each->path; });
  return at == all.end() ? nullptr : *at;
}

}  // namespace

LanguageModel::LanguageModel(Context& context, const WeightFiles& files, const LoadOptions& options)
    : context_(&context),
      config_(files.config()),
      stored_weights_(files.all()),
      longest_context_(longest_context(files.config(), options.context_length)) {
  require_free_memory(context, files);
  warn_of_unread_keys(context, config_);
  Loader loader(context, files, options);
  const ModelConfig& c = config_;
  const Shape matrix{c.vocabulary, c.hidden_size};
  embeddings_ = loader.matrix(c.embedding.words.hugging_face + ".weight", matrix);
  position_embeddings_ = loader.position_embeddings();
  embedding_norm_ = loader.embedding_norm();
  position_bias_ = loader.position_bias();
  for (std::size_t layer = 0; layer < c.blocks.size(); ++layer) {
    blocks_.push_back(loader.block(layer));
  }
  final_norm_ = loader.final_norm();
  if (c.has_head) head_ = c.tied_head ? embeddings_ : loader.matrix("lm_head.weight", matrix);
  weight_bytes_ = loader.bytes();
}

const Weight& LanguageModel::head() const {
  if (!config_.has_head)
    fail(ErrorCode::unsupported,
         "model {}: a {} model is an encoder, which embeds texts and predicts no tokens; use clora "
         "embed or Embedder",
         config_.name, config_.family);
  return head_;
}

void LanguageModel::require_context(std::int64_t length) const {
  require(length <= longest_context_,
          "model {}: its rope depends on the length of the context; it was loaded for {} positions "
          "at most, got {}; load it with that context length",
          config_.name, longest_context_, length);
}

const LinearLayer& LanguageModel::linear(std::string_view path) const {
  for (const BlockWeights& block : blocks_) {
    for (const SubLayerWeights& layer : block) {
      if (const LinearLayer* found = find_linear(layer, path)) return *found;
    }
  }
  fail(ErrorCode::invalid_argument, "model: '{}' is not one of its linear layers", path);
}

Tensor LanguageModel::rope_table(const RopeSpec& rope, std::int64_t positions) {
  auto at = std::ranges::find(rope_tables_, rope, &std::pair<RopeSpec, Tensor>::first);
  if (at == rope_tables_.end()) at = rope_tables_.insert(at, {rope, Tensor()});
  Tensor& table = at->second;
  if (table.empty() || table.shape()[0] < positions) {
    const std::vector<float> values = make_rope_table(positions, rope);
    table = context_->upload<float>({positions, rope.width / 2, 2}, DType::f32, values,
                                    MemoryTag::weights);
  }
  return table;
}

void LanguageModel::prepare_rope_tables(std::int64_t positions) {
  for (const BlockWeights& block : blocks_) {
    for (const SubLayerWeights& layer : block) {
      const auto* attention = std::get_if<AttentionWeights>(&layer.f);
      if (attention == nullptr || !attention->spec.rope) continue;
      (void)rope_table(*attention->spec.rope, positions);
      (void)rope_table(of_keys(*attention->spec.rope), positions);
    }
  }
}

std::vector<AdapterSite> adapter_sites(const ModelConfig& config) {
  return sites_of(config, 0, [](const LinearSpec&) { return true; });
}

std::vector<AdapterSite> select_sites(const ModelConfig& config,
                                      const std::vector<std::string>& target_modules,
                                      std::int64_t last_layers) {
  require_known(config, target_modules);
  require(last_layers >= 0 && last_layers <= config.layers,
          "layers: the model has {} blocks, got {}", config.layers, last_layers);
  const std::int64_t begin = last_layers == 0 ? 0 : config.layers - last_layers;
  return sites_of(config, begin,
                  [&](const LinearSpec& linear) { return is_wanted(linear, target_modules); });
}

}  // namespace clora
