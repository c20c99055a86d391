#include "clora/model/families/language_model.hpp"

#include <algorithm>

#include "clora/ops/quant/quant.hpp"
#include "model/families/rope_table.hpp"
#include "model/files/dequantise.hpp"
#include "model/files/rotary_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr PerProjection<std::string_view> kNames{
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

struct Dims {
  std::int64_t outputs, inputs;
};

Dims dims_of(const ModelConfig& c, Projection p) {
  const std::int64_t q_width = c.heads * c.head_dim;
  const std::int64_t kv_width = c.kv_heads * c.head_dim;
  switch (p) {
    case kQ:
      return {q_width, c.hidden_size};
    case kK:
    case kV:
      return {kv_width, c.hidden_size};
    case kO:
      return {c.hidden_size, q_width};
    case kGate:
    case kUp:
      return {c.intermediate_size, c.hidden_size};
    case kDown:
      break;
  }
  return {c.hidden_size, c.intermediate_size};
}

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
bool stays_in_file(Context& context, const ModelConfig& config, const WeightView& view) {
  return context.config().wrap_files && !needs_reordering(config, view.name) &&
         lies_where_kernels_read(context, view.bytes) &&
         form_of(context, view).layout == Layout::plain &&
         context.transfers().can_wrap(view.bytes, view.type);
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
    const std::size_t row_bytes =
        bytes_of(form_of(context_, view).type, static_cast<std::size_t>(shape[1]));
    const bool stays = stays_in_file(context_, files_.config(), view);
    std::vector<Tensor> parts;
    for (const RowRange& rows : part_rows(context_.device(), name, shape[0], row_bytes)) {
      Tensor part = stays ? wrap(view, rows) : Tensor();
      if (part.empty()) part = copy(view, rows);
      parts.push_back(part);
    }
    Weight weight(std::move(parts));
    count(weight.bytes(), view.bytes.size());
    return weight;
  }
  // Returns a vector as f32 for any storage type: norms and biases are small.
  Tensor vector(const std::string& name, std::int64_t elements) {
    const WeightView view = files_.get(name, {elements});
    std::vector<std::byte> ordered;
    const std::vector<float> values =
        to_float(view.type, in_order(view, ordered), static_cast<std::size_t>(elements));
    Tensor tensor = context_.upload<float>({elements}, DType::f32, values, MemoryTag::weights);
    count(tensor.bytes(), view.bytes.size());
    return tensor;
  }
  Tensor optional_vector(const std::string& name, std::int64_t elements) {
    return files_.find(name).has_value() ? vector(name, elements) : Tensor();
  }

  BlockWeights block(std::int64_t layer) {
    const ModelConfig& c = files_.config();
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    BlockWeights block;
    block.input_norm = vector(prefix + "input_layernorm.weight", c.hidden_size);
    block.post_attention_norm = vector(prefix + "post_attention_layernorm.weight", c.hidden_size);
    if (c.qk_norm) {
      block.q_norm = vector(prefix + "self_attn.q_norm.weight", c.head_dim);
      block.k_norm = vector(prefix + "self_attn.k_norm.weight", c.head_dim);
    }
    for (std::size_t p = 0; p < kProjections; ++p) {
      const auto projection = static_cast<Projection>(p);
      const Dims dims = dims_of(c, projection);
      const std::string path = path_of(layer, projection);
      block.linears[p].w = matrix(path + ".weight", {dims.outputs, dims.inputs});
      block.linears[p].bias = optional_vector(path + ".bias", dims.outputs);
    }
    return block;
  }

  std::size_t bytes() const { return bytes_; }

 private:
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
  Tensor copy(const WeightView& view, const RowRange& rows) {
    const WeightForm form = form_of(context_, view);
    const Tensor tensor =
        context_.allocate({rows.count, view.shape[1]}, form.type, MemoryTag::weights);
    if (form.layout == Layout::packed) return in_packed_panels(tensor, view, rows.begin);
    if (!needs_reordering(files_.config(), view.name)) {
      context_.write(tensor, bytes_of_rows(view, rows));
      return tensor;
    }
    const std::size_t row_bytes = row_bytes_of(view);
    context_.transfers().stream(
        tensor, row_bytes, [&](std::span<std::byte> chunk, std::size_t offset_bytes) {
          const auto row = static_cast<std::int64_t>(offset_bytes / row_bytes);
          copy_in_half_split_order(chunk, view, rows.begin + row, files_.config().head_dim);
        });
    return tensor;
  }
  // Fills `tensor` with rows of the view, from `first` on, in packed panels and returns it.
  Tensor in_packed_panels(const Tensor& tensor, const WeightView& view, std::int64_t first) {
    const std::size_t row_bytes = row_bytes_of(view);
    const std::size_t packed_bytes = tensor.bytes() / static_cast<std::size_t>(tensor.shape()[0]);
    const bool reorders = needs_reordering(files_.config(), view.name);
    std::vector<std::byte> ordered;
    context_.transfers().stream(
        tensor, static_cast<std::size_t>(kPackedRows) * packed_bytes,
        [&](std::span<std::byte> chunk, std::size_t offset_bytes) {
          const std::size_t row = static_cast<std::size_t>(first) + offset_bytes / packed_bytes;
          std::span<const std::byte> rows =
              view.bytes.subspan(row * row_bytes, chunk.size() / packed_bytes * row_bytes);
          if (reorders) {
            ordered.resize(rows.size());
            copy_in_half_split_order(ordered, view, static_cast<std::int64_t>(row),
                                     files_.config().head_dim);
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
    if (!needs_reordering(files_.config(), view.name)) return view.bytes;
    ordered = in_half_split_order(view, files_.config().head_dim);
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
  std::size_t wanted_;     // bytes of the files
  std::size_t read_ = 0;   // bytes of the files
  std::size_t bytes_ = 0;  // bytes of the tensors
};

// Throws Error(out_of_memory), before the first copy, if the model does not fit.
void require_free_memory(Context& context, const WeightFiles& files) {
  std::size_t wanted = 0;
  for (const WeightView& view : files.all()) {
    if (stays_in_file(context, files.config(), view)) continue;
    wanted +=
        bytes_of(form_of(context, view).type, static_cast<std::size_t>(view.shape.elements()));
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
                  config.name, name_of(config.architecture), fmt::join(config.unread_keys, ", ")));
}

bool is_wanted(const AdapterSite& site, const std::vector<std::string>& target_modules) {
  return std::ranges::any_of(target_modules, [&](const std::string& target) {
    return target == "all-linear" || site.path.ends_with("." + target);
  });
}

void require_known(const std::vector<std::string>& target_modules) {
  for (const std::string& target : target_modules) {
    const bool known =
        target == "all-linear" || std::ranges::any_of(kNames, [&](std::string_view name) {
          return name.substr(name.find('.') + 1) == target;
        });
    require(known,
            "target modules: '{}' is not a linear layer of this model; choose from q_proj, k_proj, "
            "v_proj, o_proj, gate_proj, up_proj and down_proj, or all-linear for all of them",
            target);
  }
}

}  // namespace

std::string_view name_of(Projection projection) { return kNames.at(projection); }

std::string path_of(std::int64_t layer, Projection projection) {
  return fmt::format("model.layers.{}.{}", layer, name_of(projection));
}

LanguageModel::LanguageModel(Context& context, const WeightFiles& files, const LoadOptions& options)
    : context_(&context), config_(files.config()), stored_weights_(files.all()) {
  require_free_memory(context, files);
  warn_of_unread_keys(context, config_);
  Loader loader(context, files, options);
  const ModelConfig& c = config_;
  embeddings_ = loader.matrix("model.embed_tokens.weight", {c.vocabulary, c.hidden_size});
  for (std::int64_t layer = 0; layer < c.layers; ++layer) blocks_.push_back(loader.block(layer));
  final_norm_ = loader.vector("model.norm.weight", c.hidden_size);
  head_ =
      c.tied_head ? embeddings_ : loader.matrix("lm_head.weight", {c.vocabulary, c.hidden_size});
  weight_bytes_ = loader.bytes();
  config_.rope_layout = RopeLayout::half_split;  // the loader has reordered the weights
}

Tensor LanguageModel::rope_table(std::int64_t positions) {
  if (rope_table_.empty() || rope_table_.shape()[0] < positions) {
    const std::vector<float> values = make_rope_table(positions, rope_frequencies(config_),
                                                      config_.rope_scaling.attention_factor);
    rope_table_ = context_->upload<float>({positions, config_.head_dim / 2, 2}, DType::f32, values,
                                          MemoryTag::weights);
  }
  return rope_table_;
}

std::vector<AdapterSite> adapter_sites(const ModelConfig& config) {
  return select_sites(config, {"all-linear"}, 0);
}

std::vector<AdapterSite> select_sites(const ModelConfig& config,
                                      const std::vector<std::string>& target_modules,
                                      std::int64_t last_layers) {
  require_known(target_modules);
  require(last_layers >= 0 && last_layers <= config.layers,
          "layers: the model has {} blocks, got {}", config.layers, last_layers);
  std::vector<AdapterSite> sites;
  const std::int64_t begin = last_layers == 0 ? 0 : config.layers - last_layers;
  for (std::int64_t layer = begin; layer < config.layers; ++layer) {
    for (std::size_t p = 0; p < kProjections; ++p) {
      const auto projection = static_cast<Projection>(p);
      const Dims dims = dims_of(config, projection);
      AdapterSite site{path_of(layer, projection), dims.inputs, dims.outputs};
      if (is_wanted(site, target_modules)) sites.push_back(std::move(site));
    }
  }
  return sites;
}

}  // namespace clora
