// Converts a GGUF file's metadata to ModelConfig. The keys are llama.cpp's, prefixed with the
// architecture's name.
#include <cmath>
#include <cstring>

#include "clora/model/files/gguf.hpp"
#include "clora/model/files/model_config.hpp"
#include "model/files/model_config_checks.hpp"
#include "model/files/model_config_gguf.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Reads "ARCHITECTURE.key".
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(prefix) {}

  std::string name(std::string_view key) const { return fmt::format("{}.{}", prefix_, key); }
  std::optional<std::int64_t> find_integer(std::string_view key) const {
    return file_.integer(name(key));
  }
  std::optional<double> find_number(std::string_view key) const { return file_.number(name(key)); }
  std::optional<std::string_view> find_text(std::string_view key) const {
    return file_.text(name(key));
  }
  std::int64_t integer(std::string_view key) const { return required(key, find_integer(key)); }
  double number(std::string_view key) const { return required(key, find_number(key)); }

 private:
  template <class T>
  T required(std::string_view key, std::optional<T> value) const {
    if (!value)
      fail(ErrorCode::invalid_file, "{}: the key {} is missing", file_.path().string(), name(key));
    return *value;
  }

  const GgufFile& file_;
  std::string_view prefix_;
};

std::int64_t vocabulary_of(const GgufFile& file) {
  const GgufTensor* embeddings = file.find_tensor("token_embd.weight");
  if (embeddings == nullptr || embeddings->shape.rank() != 2)
    fail(ErrorCode::invalid_file, "{}: the matrix token_embd.weight is missing",
         file.path().string());
  return embeddings->shape[0];
}

std::int64_t head_dim_of(const Keys& keys, const ModelConfig& config, const std::string& path) {
  const std::int64_t by_default = config.heads > 0 ? config.hidden_size / config.heads : 0;
  const std::int64_t width = keys.find_integer("attention.key_length").value_or(by_default);
  if (const auto values = keys.find_integer("attention.value_length").value_or(width);
      values != width)
    fail(ErrorCode::unsupported,
         "{}: keys of head dim {} with values of head dim {} are not supported", path, width,
         values);
  if (const auto rotated = keys.find_integer("rope.dimension_count").value_or(width);
      rotated != width)
    fail(ErrorCode::unsupported, "{}: rotating {} of {} dimensions is not supported", path, rotated,
         width);
  return width;
}

std::vector<float> read_rope_factors(const GgufTensor& tensor, const ModelConfig& config,
                                     const std::string& path) {
  const Shape wanted{config.head_dim / 2};
  if (tensor.type != DType::f32 || tensor.shape != wanted)
    fail(ErrorCode::invalid_file, "{}: rope_freqs.weight must be F32 {}, got {} {}", path,
         wanted.text(), ggml_type_name(tensor.type_number), tensor.shape.text());
  std::vector<float> factors(static_cast<std::size_t>(tensor.shape.elements()));
  std::memcpy(factors.data(), tensor.bytes.data(), tensor.bytes.size());
  for (const float factor : factors)
    if (!std::isfinite(factor) || factor <= 0)
      fail(ErrorCode::invalid_file,
           "{}: rope_freqs.weight contains the factor {}, which must be positive and finite", path,
           factor);
  return factors;
}

RopeScaling read_rope_scaling(const GgufFile& file, const Keys& keys, const ModelConfig& config) {
  const std::string path = file.path().string();
  RopeScaling scaling;
  const auto type = keys.find_text("rope.scaling.type").value_or("linear");
  const double factor = keys.find_number("rope.scaling.factor")
                            .value_or(keys.find_number("rope.scale_linear").value_or(1));
  if (type != "none" && type != "linear")
    fail(ErrorCode::unsupported,
         "{}: the rope type '{}' is not supported; supported types: none, linear", path, type);
  scaling.attention_factor = keys.find_number("rope.scaling.attn_factor").value_or(1);
  if (!std::isfinite(scaling.attention_factor) || scaling.attention_factor <= 0)
    fail(ErrorCode::invalid_file, "{}: {} must be above 0, got {}", path,
         keys.name("rope.scaling.attn_factor"), scaling.attention_factor);
  if (type == "linear" && factor != 1 && factor != 0) {
    scaling.kind = RopeScaling::Kind::linear;
    scaling.factor = factor;
  }
  if (const GgufTensor* factors = file.find_tensor("rope_freqs.weight")) {
    if (scaling.kind != RopeScaling::Kind::none)
      fail(ErrorCode::unsupported, "{}: rope_freqs.weight with a linear factor is not supported",
           path);
    scaling.kind = RopeScaling::Kind::factors;
    scaling.factors = read_rope_factors(*factors, config, path);
  }
  return scaling;
}

// Ids outside of the vocabulary mean "none" (some writers store -1 as an unsigned number).
std::optional<std::int32_t> read_id(const GgufFile& file, std::string_view key,
                                    std::int64_t vocabulary) {
  const auto id = file.integer(key);
  if (!id || *id < 0 || *id >= vocabulary) return std::nullopt;
  return static_cast<std::int32_t>(*id);
}

void read_special_ids(const GgufFile& file, ModelConfig& config) {
  config.bos_id = read_id(file, "tokenizer.ggml.bos_token_id", config.vocabulary);
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const auto id = read_id(file, key, config.vocabulary);
    if (id && (config.eos_ids.empty() || config.eos_ids.front() != *id))
      config.eos_ids.push_back(*id);
  }
}

}  // namespace

ModelConfig from_gguf(const GgufFile& file) {
  const std::string path = file.path().string();
  const auto architecture = file.text("general.architecture");
  if (!architecture)
    fail(ErrorCode::invalid_file, "{}: the key general.architecture is missing", path);
  const Keys keys(file, *architecture);
  ModelConfig config;
  config.architecture = architecture_of(*architecture, path);
  if (keys.find_integer("expert_count").value_or(0) > 0)
    fail(ErrorCode::unsupported, "{}: mixtures of experts are not supported", path);
  check_gguf_keys(file, *architecture, config);
  config.name = file.text("general.name").value_or("");
  config.layers = keys.integer("block_count");
  config.hidden_size = keys.integer("embedding_length");
  config.intermediate_size = keys.integer("feed_forward_length");
  config.heads = keys.integer("attention.head_count");
  config.kv_heads = keys.find_integer("attention.head_count_kv").value_or(config.heads);
  config.head_dim = head_dim_of(keys, config, path);
  config.vocabulary = vocabulary_of(file);
  config.rms_norm_epsilon = keys.number("attention.layer_norm_rms_epsilon");
  config.max_positions = keys.integer("context_length");
  config.rope_base = keys.find_number("rope.freq_base").value_or(config.rope_base);
  config.tied_head = file.find_tensor("output.weight") == nullptr;
  config.qkv_bias = config.architecture == Architecture::qwen2;
  config.qk_norm = config.architecture == Architecture::qwen3;
  // Writers of these files reorder the rows of q and k for Llama and Mistral, but not for Qwen.
  const bool reordered = !config.qkv_bias && !config.qk_norm;
  config.rope_layout = reordered ? RopeLayout::interleaved : RopeLayout::half_split;
  // llama.cpp applies no window to the other architectures, whatever the key says; it names
  // Mistral's models "llama".
  if (config.architecture == Architecture::mistral) {
    const auto window = keys.find_integer("attention.sliding_window");
    if (window && *window > 0) config.sliding_window = window;
  }
  check_sizes(config, path);  // first: the number of factors depends on the head dim
  config.rope_scaling = read_rope_scaling(file, keys, config);
  check_sizes(config, path);
  read_special_ids(file, config);
  return config;
}

}  // namespace clora
