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

RopeScaling read_rope_scaling(const GgufKeys& keys, const ModelConfig& config) {
  const GgufFile& file = keys.file();
  const std::string path = keys.path();
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

void read_gguf_decoder(const GgufKeys& keys, ModelConfig& config) {
  const GgufFile& file = keys.file();
  const std::string path = keys.path();
  if (keys.find_integer("expert_count").value_or(0) > 0)
    fail(ErrorCode::unsupported, "{}: mixtures of experts are not supported", path);
  config.layers = keys.integer("block_count");
  config.hidden_size = keys.integer("embedding_length");
  config.intermediate_size = keys.integer("feed_forward_length");
  config.heads = keys.integer("attention.head_count");
  config.kv_heads = keys.find_integer("attention.head_count_kv").value_or(config.heads);
  config.head_dim = head_dim_of(keys, config, path);
  config.vocabulary = vocabulary_of(file);
  config.rms_norm_epsilon = keys.number("attention.layer_norm_rms_epsilon");
  config.max_positions = keys.integer("context_length");
  config.tied_head = file.find_tensor("output.weight") == nullptr;
  config.final_norm = {{"model.norm", "output_norm"}, config.hidden_size};
  config.rope.base = keys.find_number("rope.freq_base").value_or(config.rope.base);
  config.rope.width = config.head_dim;
  check_sizes(config, path);  // first: the number of factors depends on the head dim
  config.rope.scaling = read_rope_scaling(keys, config);
  check_sizes(config, path);
}

ModelConfig from_gguf(const GgufFile& file) {
  const std::string path = file.path().string();
  const auto architecture = file.text("general.architecture");
  if (!architecture)
    fail(ErrorCode::invalid_file, "{}: the key general.architecture is missing", path);
  const GgufKeys keys(file, *architecture);
  const Family& family = family_of_gguf(*architecture, path);
  ModelConfig config;
  config.family = family.name;
  config.name = file.text("general.name").value_or("");
  family.from_gguf(keys, config);
  config.unread_keys = keys.unread_keys();
  check_sizes(config, path);
  read_special_ids(file, config);
  return config;
}

}  // namespace clora
