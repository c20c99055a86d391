// Converts ModelConfig to config.json.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "clora/model/configuration/model_config.hpp"
#include "model/configuration/family.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Returns the published rope parameters of Llama 3.1 and 3.2, if they give `factors`.
std::optional<RopeScaling> published_llama3(const RopeSpec& rope) {
  RopeSpec candidate = rope;
  candidate.scaling = {};
  candidate.scaling.kind = RopeScaling::Kind::llama3;
  candidate.scaling.factor = std::ranges::max(rope.scaling.factors);
  const auto wanted = rope_frequencies(rope);
  const auto given = rope_frequencies(candidate);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (std::abs(given[i] - wanted[i]) > 1e-5 * wanted[i]) return std::nullopt;
  return candidate.scaling;
}

nlohmann::ordered_json rope_scaling_json(const ModelConfig& config) {
  RopeScaling scaling = config.rope.scaling;
  if (scaling.kind == RopeScaling::Kind::factors) {
    const auto known = published_llama3(config.rope);
    if (!known)
      fail(ErrorCode::unsupported, "{}: its rope_freqs.weight matches no rope type of config.json",
           config.name);
    scaling = *known;
  }
  const bool has_factor =
      scaling.kind == RopeScaling::Kind::yarn || scaling.kind == RopeScaling::Kind::longrope;
  if (config.rope.scaling.attention_factor != 1 && !has_factor)
    fail(ErrorCode::unsupported,
         "{}: its rope.scaling.attn_factor of {} cannot be expressed by a supported rope type of "
         "config.json",
         config.name, config.rope.scaling.attention_factor);
  if (scaling.kind == RopeScaling::Kind::none) return nullptr;
  if (scaling.kind == RopeScaling::Kind::linear)
    return {{"rope_type", "linear"}, {"factor", scaling.factor}};
  if (scaling.kind == RopeScaling::Kind::dynamic)
    return {{"rope_type", "dynamic"}, {"factor", scaling.factor}};
  if (scaling.kind == RopeScaling::Kind::yarn)
    return {{"rope_type", "yarn"},
            {"factor", scaling.factor},
            {"attention_factor", scaling.attention_factor},
            {"beta_fast", scaling.beta_fast},
            {"beta_slow", scaling.beta_slow},
            {"truncate", scaling.truncate},
            {"original_max_position_embeddings", scaling.original_max_positions}};
  if (scaling.kind == RopeScaling::Kind::longrope)
    return {{"rope_type", "longrope"},
            {"attention_factor", scaling.attention_factor},
            {"short_factor", scaling.short_factors},
            {"long_factor", scaling.long_factors},
            {"original_max_position_embeddings", scaling.original_max_positions}};
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"original_max_position_embeddings", scaling.original_max_positions}};
}

}  // namespace

nlohmann::ordered_json to_hugging_face_json(const ModelConfig& config) {
  const Family& family = family_of(config.family, config.name);
  nlohmann::ordered_json object{
      {"architectures", {family.class_name}},
      {"model_type", config.family},
      {"hidden_act", "silu"},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"vocab_size", config.vocabulary},
      {"max_position_embeddings", config.max_positions},
      {"rms_norm_eps", config.norm_epsilon},
      {"rope_theta", config.rope.base},
      {"rope_scaling", rope_scaling_json(config)},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"tie_word_embeddings", config.tied_head},
      {"sliding_window", nullptr},
  };
  if (family.to_hugging_face != nullptr) family.to_hugging_face(object, config);
  if (config.bos_id) object["bos_token_id"] = *config.bos_id;
  if (config.eos_ids.size() == 1) object["eos_token_id"] = config.eos_ids.front();
  if (config.eos_ids.size() > 1) object["eos_token_id"] = config.eos_ids;
  return object;
}

}  // namespace clora
