// Converts ModelConfig to config.json.
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "clora/model/files/model_config.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Returns the published rope parameters of Llama 3.1 and 3.2, if they give `factors`.
std::optional<RopeScaling> published_llama3(const ModelConfig& config) {
  ModelConfig candidate = config;
  candidate.rope_scaling = {};
  candidate.rope_scaling.kind = RopeScaling::Kind::llama3;
  candidate.rope_scaling.factor = std::ranges::max(config.rope_scaling.factors);
  const auto wanted = rope_frequencies(config);
  const auto given = rope_frequencies(candidate);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (std::abs(given[i] - wanted[i]) > 1e-5 * wanted[i]) return std::nullopt;
  return candidate.rope_scaling;
}

nlohmann::ordered_json rope_scaling_json(const ModelConfig& config) {
  RopeScaling scaling = config.rope_scaling;
  if (scaling.kind == RopeScaling::Kind::factors) {
    const auto known = published_llama3(config);
    if (!known)
      fail(ErrorCode::unsupported, "{}: its rope_freqs.weight matches no rope type of config.json",
           config.name);
    scaling = *known;
  }
  if (config.rope_scaling.attention_factor != 1)
    fail(ErrorCode::unsupported,
         "{}: its rope.scaling.attn_factor of {} cannot be expressed by a supported rope type of "
         "config.json",
         config.name, config.rope_scaling.attention_factor);
  if (scaling.kind == RopeScaling::Kind::none) return nullptr;
  if (scaling.kind == RopeScaling::Kind::linear)
    return {{"rope_type", "linear"}, {"factor", scaling.factor}};
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"original_max_position_embeddings", scaling.original_max_positions}};
}

std::string_view class_name(Architecture architecture) {
  constexpr std::array<std::string_view, 4> kNames{"LlamaForCausalLM", "Qwen2ForCausalLM",
                                                   "Qwen3ForCausalLM", "MistralForCausalLM"};
  return kNames.at(static_cast<std::size_t>(architecture));
}

}  // namespace

nlohmann::ordered_json to_hugging_face_json(const ModelConfig& config) {
  nlohmann::ordered_json object{
      {"architectures", {class_name(config.architecture)}},
      {"model_type", name_of(config.architecture)},
      {"hidden_act", "silu"},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_dim},
      {"vocab_size", config.vocabulary},
      {"max_position_embeddings", config.max_positions},
      {"rms_norm_eps", config.rms_norm_epsilon},
      {"rope_theta", config.rope_base},
      {"rope_scaling", rope_scaling_json(config)},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"tie_word_embeddings", config.tied_head},
  };
  if (config.sliding_window)
    object["sliding_window"] = *config.sliding_window;
  else
    object["sliding_window"] = nullptr;
  const bool is_qwen =
      config.architecture == Architecture::qwen2 || config.architecture == Architecture::qwen3;
  if (is_qwen) {
    object["use_sliding_window"] = config.sliding_window.has_value();
    object["max_window_layers"] = config.sliding_window ? 0 : config.layers;
  }
  if (config.bos_id) object["bos_token_id"] = *config.bos_id;
  if (config.eos_ids.size() == 1) object["eos_token_id"] = config.eos_ids.front();
  if (config.eos_ids.size() > 1) object["eos_token_id"] = config.eos_ids;
  return object;
}

}  // namespace clora
