#include "model/configuration/gguf_key_writing.hpp"

#include <cmath>
#include <limits>

#include "model/configuration/experts_layer.hpp"
#include "model/configuration/family.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Kind = RopeScaling::Kind;

const GgufWriting& writing_of(const ModelConfig& config) {
  const Family& family = family_of(config.family, config.name);
  if (!family.to_gguf.architecture.empty()) return family.to_gguf;
  std::vector<std::string_view> names;
  for (const Family* each : families()) {
    if (!each->to_gguf.architecture.empty()) names.push_back(each->name);
  }
  fail(ErrorCode::unsupported,
       "{}: models of the family {} cannot be written as GGUF from Hugging Face's files; families "
       "that can: {}; write safetensors, or start from a GGUF file of the model",
       config.name, config.family, fmt::join(names, ", "));
}

void write_scaling(GgufKeyWriter& keys, const ModelConfig& config) {
  const RopeScaling& scaling = config.rope.scaling;
  if (scaling.kind == Kind::dynamic || scaling.kind == Kind::longrope)
    fail(ErrorCode::unsupported,
         "{}: the rope type {} cannot be written as GGUF; write safetensors instead", config.name,
         scaling.kind == Kind::dynamic ? "dynamic" : "longrope");
  double attention_factor = scaling.attention_factor;
  if (scaling.kind == Kind::linear || scaling.kind == Kind::yarn) {
    keys.text("rope.scaling.type", scaling.kind == Kind::linear ? "linear" : "yarn");
    keys.number("rope.scaling.factor", scaling.factor);
  }
  if (scaling.kind == Kind::yarn) {
    keys.integer("rope.scaling.original_context_length", scaling.original_max_positions);
    keys.number("rope.scaling.yarn_beta_fast", scaling.beta_fast);
    keys.number("rope.scaling.yarn_beta_slow", scaling.beta_slow);
    // llama.cpp multiplies by this term.
    if (scaling.factor > 1) attention_factor /= 0.1 * std::log(scaling.factor) + 1;
  }
  // A factor of 1 within the accuracy of f32 is none.
  if (std::abs(attention_factor - 1) > 1e-6) {
    keys.number("rope.scaling.attn_factor", attention_factor);
  }
}

void write_decoder(GgufKeyWriter& keys, const ModelConfig& config) {
  keys.integer("block_count", config.layers);
  keys.integer("context_length", config.max_positions);
  keys.integer("embedding_length", config.hidden_size);
  keys.integer("feed_forward_length", config.intermediate_size);
  keys.integer("attention.head_count", config.heads);
  keys.integer("attention.head_count_kv", config.kv_heads);
  keys.integer("attention.key_length", config.head_dim);
  keys.integer("attention.value_length", config.head_dim);
  keys.number("attention.layer_norm_rms_epsilon", config.norm_epsilon);
  keys.integer("rope.dimension_count", config.rope.width);
  keys.number("rope.freq_base", config.rope.base);
  keys.integer("vocab_size", config.vocabulary);
  write_scaling(keys, config);
}

}  // namespace

void GgufKeyWriter::integer(std::string_view key, std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<std::uint32_t>::max())
    fail(ErrorCode::unsupported, "GGUF: {}{} must fit 32 bits, got {}", prefix_, key, value);
  metadata_.set_uint32(prefix_ + std::string(key), static_cast<std::uint32_t>(value));
}

void GgufKeyWriter::number(std::string_view key, double value) {
  metadata_.set_float32(prefix_ + std::string(key), static_cast<float>(value));
}

void GgufKeyWriter::text(std::string_view key, std::string_view value) {
  metadata_.set_text(prefix_ + std::string(key), value);
}

void write_gguf_config(GgufMetadata& metadata, const ModelConfig& config) {
  const GgufWriting& writing = writing_of(config);
  metadata.set_text("general.architecture", writing.architecture);
  metadata.set_text("general.type", "model");
  if (!config.name.empty()) metadata.set_text("general.name", config.name);
  GgufKeyWriter keys(metadata, writing.architecture);
  write_decoder(keys, config);
  if (writing.write != nullptr) writing.write(keys, config);
}

RopeLayout written_rope_layout(const ModelConfig& config) {
  return family_of(config.family, config.name).gguf_rope_layout;
}

std::vector<float> written_rope_factors(const ModelConfig& config) {
  const Kind kind = config.rope.scaling.kind;
  if (kind == Kind::factors) return config.rope.scaling.factors;
  if (kind != Kind::llama3) return {};
  RopeSpec plain = config.rope;
  plain.scaling = {};
  const std::vector<double> before = rope_frequencies(plain), after = rope_frequencies(config.rope);
  std::vector<float> factors;
  for (std::size_t i = 0; i < before.size(); ++i) {
    factors.push_back(static_cast<float>(before[i] / after[i]));
  }
  return factors;
}

}  // namespace clora
