#include "clora/model/files/weights.hpp"

#include <algorithm>
#include <utility>

#include "model/files/weight_sources.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kEmbeddings = "model.embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";

void add_block_needs(std::vector<WeightNeed>& needs, const ModelConfig& c, std::int64_t layer) {
  const auto add = [&](std::string_view name, Shape shape) {
    needs.push_back({fmt::format("model.layers.{}.{}", layer, name), shape});
  };
  const std::int64_t queries = c.heads * c.head_dim;
  const std::int64_t keys = c.kv_heads * c.head_dim;
  const auto add_projection = [&](std::string_view name, std::int64_t outputs) {
    add(fmt::format("self_attn.{}.weight", name), {outputs, c.hidden_size});
    if (c.qkv_bias) add(fmt::format("self_attn.{}.bias", name), {outputs});
  };
  add("input_layernorm.weight", {c.hidden_size});
  add_projection("q_proj", queries);
  add_projection("k_proj", keys);
  add_projection("v_proj", keys);
  if (c.qk_norm) {
    add("self_attn.q_norm.weight", {c.head_dim});
    add("self_attn.k_norm.weight", {c.head_dim});
  }
  add("self_attn.o_proj.weight", {c.hidden_size, queries});
  add("post_attention_layernorm.weight", {c.hidden_size});
  add("mlp.gate_proj.weight", {c.intermediate_size, c.hidden_size});
  add("mlp.up_proj.weight", {c.intermediate_size, c.hidden_size});
  add("mlp.down_proj.weight", {c.hidden_size, c.intermediate_size});
}

// Returns the other name of a tied matrix, or the name itself if it is not tied.
std::string_view tied_name(std::string_view name) {
  if (name == kEmbeddings) return kHead;
  return name == kHead ? kEmbeddings : name;
}

bool are_equal(const WeightView& a, const WeightView& b) {
  return a.type == b.type && a.shape == b.shape && std::ranges::equal(a.bytes, b.bytes);
}

// A tied model may store either name, or both with the same values. If they differ, older releases
// of transformers ignore the head and newer ones (5) ignore the tying.
void resolve_tied_head(StoredWeights& weights, const std::filesystem::path& source) {
  const auto head = weights.find(kHead);
  if (head == weights.end()) return;
  const auto embeddings = weights.find(kEmbeddings);
  if (embeddings == weights.end()) {
    StoredWeight matrix = head->second;
    matrix.view.name = kEmbeddings;
    weights.emplace(kEmbeddings, std::move(matrix));
  } else if (!are_equal(head->second.view, embeddings->second.view)) {
    fail(ErrorCode::unsupported,
         "{}: tie_word_embeddings is true, but {} and {} differ; set it to false to use the stored "
         "head, or remove that tensor",
         source.string(), kHead, kEmbeddings);
  }
  weights.erase(weights.find(kHead));
}

void check_weight(const StoredWeights& weights, const WeightNeed& need,
                  const std::filesystem::path& source) {
  const auto at = weights.find(need.name);
  if (at == weights.end()) {
    const std::string hint =
        need.name == kHead ? "; is tie_word_embeddings missing from its configuration?" : "";
    fail(ErrorCode::invalid_file, "{}: tensor {} {} is missing{}", source.string(), need.name,
         need.shape.text(), hint);
  }
  const auto& [view, unreadable] = at->second;
  if (!unreadable.empty())
    fail(ErrorCode::unsupported,
         "{}: tensor {} {}; F32, F16, BF16 and in GGUF files Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, "
         "Q5_K and Q6_K are supported",
         view.file.string(), view.stored_name, unreadable);
  if (view.shape != need.shape)
    fail(ErrorCode::invalid_file, "{}: tensor {} must be {}, got {}", view.file.string(),
         view.stored_name, need.shape.text(), view.shape.text());
}

}  // namespace

struct WeightFiles::Store {
  WeightSources sources;
  std::vector<WeightNeed> needs;
  StoredWeights weights;  // exactly those of `needs`
};

std::vector<WeightNeed> weight_needs(const ModelConfig& config) {
  std::vector<WeightNeed> needs;
  needs.push_back({std::string(kEmbeddings), {config.vocabulary, config.hidden_size}});
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    add_block_needs(needs, config, layer);
  needs.push_back({"model.norm.weight", {config.hidden_size}});
  if (!config.tied_head)
    needs.push_back({std::string(kHead), {config.vocabulary, config.hidden_size}});
  return needs;
}

WeightFiles::WeightFiles(std::unique_ptr<Store> store) : store_(std::move(store)) {}
WeightFiles::WeightFiles(WeightFiles&&) noexcept = default;
WeightFiles& WeightFiles::operator=(WeightFiles&&) noexcept = default;
WeightFiles::~WeightFiles() = default;

WeightFiles WeightFiles::open(const std::filesystem::path& path) {
  auto store = std::make_unique<Store>();
  store->sources = open_weight_sources(path);
  const ModelConfig& config = store->sources.config;
  store->needs = weight_needs(config);
  StoredWeights stored = list_weights(store->sources);
  if (config.tied_head) resolve_tied_head(stored, store->sources.config_file);
  for (const WeightNeed& need : store->needs) {
    check_weight(stored, need, path);
    store->weights.insert(stored.extract(need.name));
  }
  // An additional tensor (a bias, a scale, an expert) would change the result.
  if (!stored.empty()) {
    const WeightView& extra = stored.begin()->second.view;
    fail(ErrorCode::unsupported, "{}: tensor {} is not part of a {} model with {} layers",
         extra.file.string(), extra.stored_name, name_of(config.architecture), config.layers);
  }
  return WeightFiles(std::move(store));
}

const ModelConfig& WeightFiles::config() const noexcept { return store_->sources.config; }

std::optional<WeightView> WeightFiles::find(std::string_view name) const {
  auto at = store_->weights.find(name);
  if (at == store_->weights.end() && config().tied_head) at = store_->weights.find(tied_name(name));
  if (at == store_->weights.end()) return std::nullopt;
  WeightView view = at->second.view;
  view.name = name;
  return view;
}

WeightView WeightFiles::get(std::string_view name, const Shape& expected) const {
  auto view = find(name);
  if (!view)
    fail(ErrorCode::not_found, "{}: has no tensor {}", store_->sources.config_file.string(), name);
  if (view->shape != expected)
    fail(ErrorCode::invalid_file, "{}: tensor {} must be {}, got {}", view->file.string(), name,
         expected.text(), view->shape.text());
  return *std::move(view);
}

std::vector<WeightView> WeightFiles::all() const {
  std::vector<WeightView> views;
  for (const WeightNeed& need : store_->needs)
    views.push_back(store_->weights.find(need.name)->second.view);
  return views;
}

std::vector<std::filesystem::path> WeightFiles::files() const {
  std::vector<std::filesystem::path> paths;
  if (gguf() != nullptr) paths.push_back(gguf()->path());
  for (const SafetensorsFile& file : store_->sources.safetensors) paths.push_back(file.path());
  return paths;
}

const std::filesystem::path& WeightFiles::folder() const noexcept { return store_->sources.folder; }

const GgufFile* WeightFiles::gguf() const noexcept {
  return store_->sources.gguf ? &*store_->sources.gguf : nullptr;
}

}  // namespace clora
