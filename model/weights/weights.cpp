#include "clora/model/weights/weights.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lora/hub_cache.hpp"
#include "model/weights/weight_sources.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::string_view kEmbeddings = "model.embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";

// Adds the needs of a norm, or of what else begins with `prefix`, and with `gguf_prefix` in GGUF
// files.
class Needs {
 public:
  Needs(std::vector<WeightNeed>& needs, std::string prefix, std::string gguf_prefix)
      : needs_(needs), prefix_(std::move(prefix)), gguf_prefix_(std::move(gguf_prefix)) {}

  void add(const SubLayerSpec& layer) {
    for (const TensorSpec& tensor : tensors_of(layer)) {
      std::visit([this](const auto* each) { add(*each); }, tensor);
    }
  }
  void add(const NormSpec& norm) {
    if (!norm.exists()) return;
    add(norm.names, ".weight", {norm.width}, 0);
    needs_.back().plus_one = norm.plus_one;
    if (norm.has_bias) add(norm.names, ".bias", {norm.width}, 0);
  }
  void add_matrix(const TensorNames& names, std::int64_t rows, std::int64_t columns) {
    if (rows > 0) add(names, ".weight", {rows, columns}, 0);
  }

 private:
  void add(const ParameterSpec& parameter) {
    const Shape shape =
        parameter.taps == 0 ? Shape{parameter.width} : Shape{parameter.width, 1, parameter.taps};
    add(parameter.names, "", shape, 0);
    needs_.back().negative_exp = parameter.negative_exp;
    needs_.back().value_heads = parameter.value_heads;
  }
  void add(const LinearSpec& linear) {
    add(linear.names, ".weight", {linear.outputs, linear.inputs}, linear.rotated_head_dim);
    needs_.back().value_heads = linear.value_heads;
    needs_.back().stack = linear.stack;
    if (linear.has_bias) add(linear.names, ".bias", {linear.outputs}, linear.rotated_head_dim);
  }
  void add(const TensorNames& names, std::string_view kind, Shape shape, std::int64_t head_dim) {
    needs_.push_back({fmt::format("{}{}{}", prefix_, names.hugging_face, kind),
                      fmt::format("{}{}{}", gguf_prefix_, names.gguf, kind), shape, head_dim});
  }

  std::vector<WeightNeed>& needs_;
  std::string prefix_, gguf_prefix_;
};

// Returns the other name of a tied matrix, or the name itself if it is not tied.
std::string_view tied_name(std::string_view name) {
  if (name == kEmbeddings) return kHead;
  return name == kHead ? kEmbeddings : name;
}

bool are_equal(const WeightView& a, const WeightView& b) {
  return a.type == b.type && a.shape == b.shape && !a.arranged && !b.arranged &&
         std::ranges::equal(a.bytes, b.bytes);
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

// GGUF files store the taps [C, 1, W] of a convolution as [C, W].
void restore_dimension(StoredWeights& weights, const WeightNeed& need) {
  const auto at = weights.find(need.name);
  if (at == weights.end() || need.shape.rank() != 3) return;
  Shape& shape = at->second.view.shape;
  if (shape == Shape{need.shape[0], need.shape[2]}) shape = need.shape;
}

// How the values of the view are stored in the file of a model that needs them.
void describe_storage(WeightView& view, const WeightNeed& need, const ModelConfig& config,
                      bool is_gguf) {
  if (config.rope_layout == RopeLayout::interleaved) {
    view.interleaved_head_dim = need.rotated_head_dim;
  }
  view.hugging_face_offset = need.plus_one ? 1.0F : 0.0F;
  view.offset = is_gguf ? 0 : view.hugging_face_offset;
  view.hugging_face_negative_exp = need.negative_exp;
  view.negative_exp = need.negative_exp && !is_gguf;
  if (!is_gguf || !need.value_heads || need.value_heads->per_key_head == 1) return;
  view.value_heads = need.value_heads;
  const auto block = std::int64_t{facts_of(view.type).block_elements};
  if (need.value_heads->in_columns && need.value_heads->size % block != 0)
    fail(
        ErrorCode::unsupported,
        "{}: the columns of tensor {} are value heads of {} elements in another order than Hugging "
        "Face's; {} has blocks of {}, which cannot be reordered; use a file that stores this "
        "tensor as F32, F16, BF16 or Q8_0",
        view.file.string(), view.stored_name, need.value_heads->size, name_of(view.type), block);
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
         "{}: tensor {} {}; F32, F16, BF16 and in GGUF files Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, "
         "Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4, TQ1_0 and TQ2_0 are supported",
         view.file.string(), view.stored_name, unreadable);
  if (view.shape != need.shape)
    fail(ErrorCode::invalid_file, "{}: tensor {} must be {}, got {}", view.file.string(),
         view.stored_name, need.shape.text(), view.shape.text());
}

bool is_unused(const ModelConfig& config, std::string_view name) {
  return std::ranges::any_of(config.unused_tensors,
                             [&](const auto& prefix) { return name.starts_with(prefix); });
}

}  // namespace

struct WeightFiles::Store {
  WeightSources sources;
  std::vector<WeightNeed> needs;
  StoredWeights weights;  // exactly those of `needs`
};

std::size_t size_bytes(const WeightView& view) {
  return bytes_of(view.type, static_cast<std::size_t>(view.shape.elements()));
}

float model_value(const WeightView& view, float stored) {
  return view.negative_exp ? -std::exp(stored) : stored + view.offset;
}

float hugging_face_value(const WeightView& view, float stored) {
  if (view.hugging_face_negative_exp != view.negative_exp) return std::log(-stored);
  return stored + view.offset - view.hugging_face_offset;
}

std::vector<WeightNeed> weight_needs(const ModelConfig& config) {
  const std::int64_t D = config.hidden_size;
  const EmbeddingSpec& embedding = config.embedding;
  std::vector<WeightNeed> needs;
  Needs rest(needs, "", "");
  rest.add_matrix(embedding.words, config.vocabulary, D);
  rest.add_matrix(embedding.positions, embedding.position_rows, D);
  rest.add_matrix(embedding.segments, embedding.segment_rows, D);
  rest.add(embedding.norm);
  rest.add_matrix(config.position_bias.names, config.position_bias.buckets, config.heads);
  for (std::size_t layer = 0; layer < config.blocks.size(); ++layer) {
    Needs block(needs, fmt::format("{}{}.", config.block_prefix, layer),
                fmt::format("blk.{}.", layer));
    for (const SubLayerSpec& each : config.blocks[layer]) block.add(each);
  }
  rest.add(config.final_norm);
  if (config.has_head && !config.tied_head) {
    needs.push_back({std::string(kHead), "output.weight", {config.vocabulary, D}});
  }
  return needs;
}

WeightFiles::WeightFiles(std::unique_ptr<Store> store) : store_(std::move(store)) {}
WeightFiles::WeightFiles(WeightFiles&&) noexcept = default;
WeightFiles& WeightFiles::operator=(WeightFiles&&) noexcept = default;
WeightFiles::~WeightFiles() = default;

WeightFiles WeightFiles::open(const std::filesystem::path& given) {
  const std::filesystem::path path = resolve_hub_path(given);
  auto store = std::make_unique<Store>();
  store->sources = open_weight_sources(path);
  const ModelConfig& config = store->sources.config;
  store->needs = weight_needs(config);
  StoredWeights stored = list_weights(store->sources, store->needs);
  if (config.tied_head) resolve_tied_head(stored, store->sources.config_file);
  for (const WeightNeed& need : store->needs) {
    if (store->sources.gguf) restore_dimension(stored, need);
    check_weight(stored, need, path);
    WeightView& view = store->weights.insert(stored.extract(need.name)).position->second.view;
    describe_storage(view, need, config, store->sources.gguf.has_value());
  }
  std::erase_if(stored, [&](const auto& each) { return is_unused(config, each.first); });
  // An additional tensor (a bias, a scale, an expert) would change the result.
  if (!stored.empty()) {
    const WeightView& extra = stored.begin()->second.view;
    fail(ErrorCode::unsupported, "{}: tensor {} is not part of a {} model with {} layers",
         extra.file.string(), extra.stored_name, config.family, config.layers);
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
  if (gguf() != nullptr)
    for (const MappedFile& part : gguf()->parts()) paths.push_back(part.path());
  for (const SafetensorsFile& file : store_->sources.safetensors) paths.push_back(file.path());
  return paths;
}

const std::filesystem::path& WeightFiles::folder() const noexcept { return store_->sources.folder; }

const GgufFile* WeightFiles::gguf() const noexcept {
  return store_->sources.gguf ? &*store_->sources.gguf : nullptr;
}

}  // namespace clora
