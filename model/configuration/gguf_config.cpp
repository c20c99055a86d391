// Converts a GGUF file's metadata to ModelConfig.
#include <cmath>
#include <cstring>

#include "clora/model/configuration/model_config.hpp"
#include "clora/model/files/gguf.hpp"
#include "model/configuration/family.hpp"
#include "model/configuration/gguf_config.hpp"
#include "model/configuration/model_config_checks.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

std::int64_t vocabulary_of(const GgufFile& file) {
  const GgufTensor* embeddings = file.find_tensor("token_embd.weight");
  if (embeddings == nullptr || embeddings->shape.rank() != 2)
    fail(ErrorCode::invalid_file, "{}: the matrix token_embd.weight is missing",
         file.path().string());
  return embeddings->shape[0];
}

std::int64_t head_dim_of(const GgufKeys& keys, const ModelConfig& config, const std::string& path) {
  const std::int64_t by_default = config.heads > 0 ? config.hidden_size / config.heads : 0;
  const std::int64_t width = keys.find_integer("attention.key_length").value_or(by_default);
  if (const auto values = keys.find_integer("attention.value_length").value_or(width);
      values != width)
    fail(ErrorCode::unsupported,
         "{}: keys of head dim {} with values of head dim {} are not supported", path, width,
         values);
  return width;
}

std::int64_t rotated_width_of(const GgufKeys& keys, const ModelConfig& config,
                              bool may_be_partial) {
  const std::int64_t width = keys.find_integer("rope.dimension_count").value_or(config.head_dim);
  const bool fits = width == config.head_dim ||
                    (may_be_partial && width > 0 && width < config.head_dim && width % 2 == 0);
  if (!fits)
    fail(ErrorCode::unsupported, "{}: rotating {} of {} dimensions is not supported", keys.path(),
         width, config.head_dim);
  return width;
}

std::vector<float> read_rope_factors(const GgufTensor& tensor, std::int64_t width,
                                     const std::string& path) {
  const Shape wanted{width / 2};
  if (tensor.type != DType::f32 || tensor.shape != wanted)
    fail(ErrorCode::invalid_file, "{}: {} must be F32 {}, got {} {}", path, tensor.name,
         wanted.text(), ggml_type_name(tensor.type_number), tensor.shape.text());
  std::vector<float> factors(static_cast<std::size_t>(tensor.shape.elements()));
  std::memcpy(factors.data(), tensor.bytes.data(), tensor.bytes.size());
  for (const float factor : factors)
    if (!std::isfinite(factor) || factor <= 0)
      fail(ErrorCode::invalid_file,
           "{}: {} contains the factor {}, which must be positive and finite", path, tensor.name,
           factor);
  return factors;
}

// Without a key it is the context's length.
std::int64_t original_positions(const GgufKeys& keys, const ModelConfig& config) {
  const std::int64_t original =
      keys.find_integer("rope.scaling.original_context_length").value_or(0);
  return original > 0 ? original : config.max_positions;
}

void read_yarn(const GgufKeys& keys, const ModelConfig& config, RopeScaling& scaling) {
  scaling.kind = RopeScaling::Kind::yarn;
  scaling.original_max_positions = original_positions(keys, config);
  scaling.beta_fast = keys.find_number("rope.scaling.yarn_beta_fast").value_or(32);
  scaling.beta_slow = keys.find_number("rope.scaling.yarn_beta_slow").value_or(1);
  if (scaling.factor > 1) scaling.attention_factor *= 0.1 * std::log(scaling.factor) + 1;
}

// Factors of all contexts, or of short and long ones, beside no other scaling.
void read_factors(const GgufKeys& keys, const ModelConfig& config, RopeScaling& scaling) {
  const GgufFile& file = keys.file();
  const GgufTensor* all = file.find_tensor("rope_freqs.weight");
  const GgufTensor* of_short = file.find_tensor("rope_factors_short.weight");
  const GgufTensor* of_long = file.find_tensor("rope_factors_long.weight");
  if (all == nullptr && of_short == nullptr && of_long == nullptr) return;
  if (scaling.kind != RopeScaling::Kind::none)
    fail(ErrorCode::unsupported, "{}: rope factors with another scaling are not supported",
         keys.path());
  const std::int64_t width = config.rope.width;
  if (all != nullptr) {
    scaling.kind = RopeScaling::Kind::factors;
    scaling.factors = read_rope_factors(*all, width, keys.path());
    return;
  }
  if (of_short == nullptr || of_long == nullptr)
    fail(ErrorCode::invalid_file,
         "{}: rope_factors_short.weight and rope_factors_long.weight must both be there",
         keys.path());
  scaling.kind = RopeScaling::Kind::longrope;
  scaling.short_factors = read_rope_factors(*of_short, width, keys.path());
  scaling.long_factors = read_rope_factors(*of_long, width, keys.path());
  scaling.original_max_positions = original_positions(keys, config);
}

RopeScaling read_rope_scaling(const GgufKeys& keys, const ModelConfig& config) {
  const std::string path = keys.path();
  RopeScaling scaling;
  const auto type = keys.find_text("rope.scaling.type").value_or("linear");
  const double factor = keys.find_number("rope.scaling.factor")
                            .value_or(keys.find_number("rope.scale_linear").value_or(1));
  if (type != "none" && type != "linear" && type != "yarn" && type != "longrope")
    fail(ErrorCode::unsupported,
         "{}: the rope type '{}' is not supported; supported types: none, linear, yarn, longrope",
         path, type);
  scaling.attention_factor = keys.find_number("rope.scaling.attn_factor").value_or(1);
  if (!std::isfinite(scaling.attention_factor) || scaling.attention_factor <= 0)
    fail(ErrorCode::invalid_file, "{}: {} must be above 0, got {}", path,
         keys.name("rope.scaling.attn_factor"), scaling.attention_factor);
  if (factor != 1 && factor != 0 && (type == "linear" || type == "yarn")) {
    scaling.factor = factor;
    scaling.kind = RopeScaling::Kind::linear;
    if (type == "yarn") read_yarn(keys, config, scaling);
  }
  read_factors(keys, config, scaling);
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

void read_gguf_decoder(const GgufKeys& keys, ModelConfig& config, bool may_rotate_partly) {
  const GgufFile& file = keys.file();
  const std::string path = keys.path();
  config.layers = keys.integer("block_count");
  config.hidden_size = keys.integer("embedding_length");
  config.intermediate_size = keys.integer("feed_forward_length");
  config.heads = keys.integer("attention.head_count");
  if (config.kv_heads == 0) {
    config.kv_heads = keys.find_integer("attention.head_count_kv").value_or(config.heads);
  }
  config.head_dim = head_dim_of(keys, config, path);
  config.vocabulary = vocabulary_of(file);
  config.norm_epsilon = keys.number("attention.layer_norm_rms_epsilon");
  config.max_positions = keys.integer("context_length");
  config.tied_head = file.find_tensor("output.weight") == nullptr;
  config.final_norm = {{"model.norm", "output_norm"}, config.hidden_size};
  config.rope.base = keys.find_number("rope.freq_base").value_or(config.rope.base);
  config.rope.width = rotated_width_of(keys, config, may_rotate_partly);
  check_sizes(config, path);  // first: the number of factors depends on the head dim
  config.rope.scaling = read_rope_scaling(keys, config);
  check_sizes(config, path);
}

std::optional<std::int64_t> read_gguf_window(const GgufKeys& keys) {
  const std::optional<std::int64_t> window = keys.find_integer("attention.sliding_window");
  return window && *window > 0 ? window : std::nullopt;
}

ModelConfig from_gguf(const GgufFile& file) {
  const std::string path = file.path().string();
  const auto architecture = file.text("general.architecture");
  if (!architecture)
    fail(ErrorCode::invalid_file, "{}: the key general.architecture is missing", path);
  const GgufKeys keys(file, *architecture);
  const Family& family = family_of_gguf(*architecture, keys);
  ModelConfig config;
  config.family = family.name;
  config.name = file.text("general.name").value_or("");
  config.rope_layout = family.gguf_rope_layout;
  family.from_gguf(keys, config);
  config.unread_keys = keys.unread_keys();
  check_sizes(config, path);
  read_special_ids(file, config);
  return config;
}

}  // namespace clora
