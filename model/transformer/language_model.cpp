#include "clora/model/transformer/language_model.hpp"

#include <algorithm>
#include <limits>

#include "clora/model/transformer/adapter_sites.hpp"
#include "lora/end_modules.hpp"
#include "model/transformer/layer_loader.hpp"
#include "model/transformer/rope_table.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

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

// transformers and llama.cpp ignore these keys too, but they may have been set for a reason.
void warn_of_unread_keys(const Context& context, const ModelConfig& config) {
  if (config.unread_keys.empty()) return;
  context.hooks().log_message(
      LogLevel::warning,
      fmt::format("model {}: its configuration has keys that are ignored for a {} model: {}",
                  config.name, config.family, fmt::join(config.unread_keys, ", ")));
}

// GPTQ's desc_act gives neighbouring inputs different scales, which no type of blocks holds.
void warn_of_arranged_floats(const Context& context, const ModelConfig& config,
                             std::span<const WeightView> weights) {
  const auto is_float = [](const WeightView& w) { return w.arranged && w.type == DType::f32; };
  const auto count = std::ranges::count_if(weights, is_float);
  if (count == 0) return;
  context.hooks().log_message(
      LogLevel::warning,
      fmt::format("model {}: {} quantised weights such as {} take four bytes per element, because "
                  "blocks cannot hold their groups (desc_act); quantise the model without it, or "
                  "use a GGUF file",
                  config.name, count, std::ranges::find_if(weights, is_float)->stored_name));
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

// Whether the token embeddings can be adapted: the gradient does not pass a norm after them.
bool can_adapt_embeddings(const ModelConfig& config) {
  return config.has_head && !config.embedding.norm.exists() &&
         is_embedding(config.embedding.words.hugging_face);
}

// The last name parts of all linear layers of blocks, each once, in the order of computation, and
// of the modules outside of them.
std::vector<std::string> module_names(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const BlockSpec& block : config.blocks) {
    for (const SubLayerSpec& layer : block) {
      for (const LinearSpec* linear : linears_of(layer)) {
        std::string name = last_part(linear->names.hugging_face);
        if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
      }
    }
  }
  if (can_adapt_embeddings(config)) names.push_back(last_part(std::string(kEmbeddingsPath)));
  if (config.has_head) names.emplace_back(kHeadPath);
  return names;
}

// `sites` of blocks, after the embeddings and before the head where these are wanted.
template <class Wants>
std::vector<AdapterSite> with_ends(const ModelConfig& config, std::vector<AdapterSite> sites,
                                   Wants wants) {
  const std::int64_t V = config.vocabulary, D = config.hidden_size;
  const std::string embeddings(kEmbeddingsPath), head(kHeadPath);
  if (can_adapt_embeddings(config) && wants(embeddings)) {
    sites.insert(sites.begin(), {embeddings, V, D});
  }
  if (config.has_head && wants(head)) sites.push_back({head, D, V});
  return sites;
}

void require_known(const ModelConfig& config, const std::vector<std::string>& target_modules) {
  const std::vector<std::string> names = module_names(config);
  for (const std::string& target : target_modules) {
    require(target == "all-linear" || std::ranges::find(names, target) != names.end(),
            "target modules: '{}' is not a linear layer of this model; choose from {}, or "
            "all-linear for all linear layers of its blocks",
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

const LinearLayer* find_linear_in(const SubLayerWeights& layer, std::string_view path) {
  const Linears all = std::visit([](const auto& f) { return linears_in(f); }, layer.f);
  const auto at = std::ranges::find(all, path, [](const LinearLayer* each) { return each->path; });
  return at == all.end() ? nullptr : *at;
}

}  // namespace

LanguageModel::LanguageModel(Context& context, const WeightFiles& files, const LoadOptions& options)
    : context_(&context),
      config_(files.config()),
      range_(options.blocks.value_or(all_blocks(config_))),
      stored_weights_(files.all()),
      longest_context_(longest_context(files.config(), options.context_length)) {
  check(range_, config_);
  std::vector<WeightView> wanted = stored_weights_;
  std::erase_if(
      wanted, [this](const WeightView& view) { return !holds_tensor(config_, range_, view.name); });
  require_free_memory(context, wanted);
  warn_of_unread_keys(context, config_);
  warn_of_arranged_floats(context, config_, wanted);
  LayerLoader loader(context, files, wanted, options);
  if (is_first()) load_embeddings(loader);
  position_bias_ = loader.position_bias();
  for (std::int64_t block = 0; block < range_.end; ++block) {
    if (range_.contains(block)) {
      blocks_.push_back(loader.block(static_cast<std::size_t>(block)));
    } else {
      loader.skip(config_.blocks[static_cast<std::size_t>(block)]);
    }
  }
  if (is_last()) load_output(loader);
  weight_bytes_ = loader.tensors().bytes();
}

void LanguageModel::load_embeddings(LayerLoader& loader) {
  const Shape matrix{config_.vocabulary, config_.hidden_size};
  const std::string words = config_.embedding.words.hugging_face + ".weight";
  const bool are_head = config_.has_head && config_.tied_head && is_last();
  embeddings_ = are_head ? loader.tensors().matrix(words, matrix)
                         : loader.tensors().lookup_table(words, matrix);
  position_embeddings_ = loader.position_embeddings();
  embedding_norm_ = loader.embedding_norm();
}

// A tied head of a stage that does not hold the embeddings is loaded by their name.
void LanguageModel::load_output(LayerLoader& loader) {
  final_norm_ = loader.final_norm();
  if (!config_.has_head) return;
  if (config_.tied_head && is_first()) {
    head_ = embeddings_;
    return;
  }
  const std::string name =
      config_.tied_head ? config_.embedding.words.hugging_face + ".weight" : "lm_head.weight";
  head_ = loader.tensors().matrix(name, {config_.vocabulary, config_.hidden_size});
}

const Weight& LanguageModel::head() const {
  if (!config_.has_head)
    fail(ErrorCode::unsupported,
         "model {}: a {} model is an encoder, which embeds texts and predicts no tokens; use clora "
         "embed or Embedder",
         config_.name, config_.family);
  require(is_last(), "model {}: its head is not on the device of blocks [{}, {}), but on the last",
          config_.name, range_.begin, range_.end);
  return head_;
}

void LanguageModel::require_context(std::int64_t length) const {
  require(length <= longest_context_,
          "model {}: its rope depends on the length of the context; it was loaded for {} positions "
          "at most, got {}; load it with that context length",
          config_.name, longest_context_, length);
}

const LinearLayer* LanguageModel::find_linear(std::string_view path) const {
  for (const BlockWeights& block : blocks_) {
    for (const SubLayerWeights& layer : block) {
      if (const LinearLayer* found = find_linear_in(layer, path)) return found;
    }
  }
  return nullptr;
}

const LinearLayer& LanguageModel::linear(std::string_view path) const {
  if (const LinearLayer* found = find_linear(path)) return *found;
  fail(ErrorCode::invalid_argument, "model: '{}' is not one of its linear layers{}", path,
       is_whole()
           ? ""
           : fmt::format(" in the blocks [{}, {}) on this device", range_.begin, range_.end));
}

Tensor LanguageModel::rope_table(const RopeSpec& rope, std::int64_t positions) {
  auto at = std::ranges::find(rope_tables_, rope, &std::pair<RopeSpec, Tensor>::first);
  if (at == rope_tables_.end()) at = rope_tables_.insert(at, {rope, Tensor()});
  Tensor& table = at->second;
  if (table.empty() || table.shape()[0] < positions) {
    const Shape shape{positions, rope.width / 2, 2};
    table = Tensor();  // freed first
    table = context_->allocate(shape, DType::f32, MemoryTag::weights);
    if (context_->config().dry_run) return table;  // a million positions take seconds
    const std::vector<float> values = make_rope_table(positions, rope);
    context_->write(table, std::as_bytes(std::span(values)));
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
  auto sites = sites_of(
      config, begin, [&](const LinearSpec& linear) { return is_wanted(linear, target_modules); });
  return with_ends(config, std::move(sites), [&](const std::string& path) {
    return std::ranges::find(target_modules, last_part(path)) != target_modules.end();
  });
}

std::vector<AdapterSite> all_adapter_sites(const ModelConfig& config) {
  return with_ends(config, adapter_sites(config), [](const std::string&) { return true; });
}

}  // namespace clora
