// config.json: which keys are read, harmless or refused.
#include <algorithm>
#include <array>
#include <string_view>

#include "model/files/model_config_hugging_face.hpp"
#include "model/files/model_config_key_lists.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

// Read by from_hugging_face() and the functions of model_config_hugging_face.hpp.
constexpr std::array<std::string_view, 29> kRead{"architectures",
                                                 "attention_bias",
                                                 "bos_token_id",
                                                 "eos_token_id",
                                                 "head_dim",
                                                 "hidden_act",
                                                 "hidden_size",
                                                 "intermediate_size",
                                                 "layer_types",
                                                 "max_position_embeddings",
                                                 "max_window_layers",
                                                 "mlp_bias",
                                                 "model_type",
                                                 "num_attention_heads",
                                                 "num_hidden_layers",
                                                 "num_key_value_heads",
                                                 "original_max_position_embeddings",
                                                 "partial_rotary_factor",
                                                 "quantization_config",
                                                 "rms_norm_eps",
                                                 "rope_parameters",
                                                 "rope_scaling",
                                                 "rope_theta",
                                                 "sliding_window",
                                                 "tie_word_embeddings",
                                                 "use_sliding_window",
                                                 "vocab_size",
                                                 "is_causal",
                                                 "use_qkv_bias"};

// Training, sampling, storage, provenance and bookkeeping: keys that transformers 5.23 or older
// releases write to the files of these architectures.
constexpr std::array<std::string_view, 64> kHarmless{"_attn_implementation",
                                                     "_attn_implementation_autoset",
                                                     "_commit_hash",
                                                     "_flash_attn_2_enabled",
                                                     "_name_or_path",
                                                     "add_bos_token",
                                                     "add_eos_token",
                                                     "attention_dropout",
                                                     "attn_implementation",
                                                     "bad_words_ids",
                                                     "begin_suppress_tokens",
                                                     "classifier_dropout",
                                                     "decoder_start_token_id",
                                                     "do_sample",
                                                     "dtype",
                                                     "early_stopping",
                                                     "embd_pdrop",
                                                     "finetuning_task",
                                                     "forced_bos_token_id",
                                                     "forced_eos_token_id",
                                                     "hidden_dropout",
                                                     "id2label",
                                                     "initializer_range",
                                                     "is_decoder",
                                                     "is_llama_config",
                                                     "keys_to_ignore_at_inference",
                                                     "label2id",
                                                     "length_penalty",
                                                     "max_length",
                                                     "max_sequence_length",
                                                     "min_length",
                                                     "min_p",
                                                     "model_max_length",
                                                     "name_or_path",
                                                     "num_beams",
                                                     "num_labels",
                                                     "num_return_sequences",
                                                     "output_attentions",
                                                     "output_hidden_states",
                                                     "pad_token_id",
                                                     "prefix",
                                                     "pretraining_tp",
                                                     "problem_type",
                                                     "repetition_penalty",
                                                     "resid_pdrop",
                                                     "return_dict",
                                                     "seq_length",
                                                     "task_specific_params",
                                                     "temperature",
                                                     "tokenizer_class",
                                                     "top_k",
                                                     "top_p",
                                                     "torch_dtype",
                                                     "torchscript",
                                                     "transformers.js_config",
                                                     "transformers_version",
                                                     "typical_p",
                                                     "unsloth_fixed",
                                                     "unsloth_version",
                                                     "num_beam_groups",
                                                     "diversity_penalty",
                                                     "no_repeat_ngram_size",
                                                     "output_scores",
                                                     "use_cache"};

// What other architectures, or a model's custom code, compute from these keys is not implemented
// here. Each is off if it is absent, null, false, 0, empty, or the given value.
constexpr std::array<RefusedKey, 50> kRefused{{
    {"add_cross_attention"},
    {"alibi"},
    {"attention_chunk_size"},
    {"attention_multiplier"},
    {"attention_out_bias"},
    {"attn_logit_softcapping"},
    {"attn_temperature_tuning"},
    {"chunk_size_feed_forward"},
    {"clip_qkv"},
    {"embedding_multiplier", 1},
    {"embedding_scale", 1},
    {"final_logit_softcapping"},
    {"first_k_dense_replace"},
    {"is_encoder_decoder"},
    {"key_multiplier", 1},
    {"rope_interleaved"},
    {"lm_head_bias"},
    {"lm_head_multiplier", 1},
    {"logit_scale", 1},
    {"logits_scaling", 1},
    {"logits_soft_cap"},
    {"moe_intermediate_size"},
    {"n_routed_experts"},
    {"no_rope_layer_interval"},
    {"no_rope_layers"},
    {"num_experts"},
    {"num_experts_per_tok"},
    {"num_local_experts"},
    {"parallel_attn"},
    {"parallel_residual"},
    {"per_layer_config"},
    {"pruned_heads"},
    {"qk_layernorm"},
    {"qk_norm"},
    {"query_pre_attn_scalar"},
    {"residual_multiplier", 1},
    {"residual_scale", 1},
    {"rope_local_base_freq"},
    {"rotary_pct", 1},
    {"scale_depth"},
    {"scale_emb", 1},
    {"sliding_window_pattern"},
    {"ssm_multipliers"},
    {"tie_encoder_decoder"},
    {"use_alibi"},
    {"use_bidirectional_attention"},
    {"use_dynamic_ntk"},
    {"use_logn_attn"},
    {"use_mrope"},
    {"use_qk_norm"},
}};

bool is_off(const json& value, double off) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0 || value.get<double>() == off;
  return value.is_null() || (value.is_structured() && value.empty());
}

[[noreturn]] void refuse(const JsonKeys& keys, std::string_view key, const json& value) {
  fail(ErrorCode::unsupported, "{}: {} = {} is not supported: it changes what the model computes",
       keys.source(), key, json_excerpt(value));
}

void refuse_unless(bool supported, const JsonKeys& keys, std::string_view key) {
  if (!supported) refuse(keys, key, *keys.find(key));
}

// Checks keys of these architectures that are on in some of their models.
void check_known_switches(const JsonKeys& keys, Architecture architecture) {
  const std::string activation = keys.find_text("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish")
    fail(ErrorCode::unsupported, "{}: the activation '{}' is not supported; it must be silu",
         keys.source(), activation);
  refuse_unless(keys.find_number("partial_rotary_factor").value_or(1) == 1, keys,
                "partial_rotary_factor");
  // In Qwen2's files attention_bias has no meaning: the q, k and v biases always exist.
  const bool bias = keys.find_flag("attention_bias").value_or(false);
  refuse_unless(!bias || architecture == Architecture::qwen2, keys, "attention_bias");
  refuse_unless(!keys.find_flag("mlp_bias").value_or(false), keys, "mlp_bias");
  refuse_unless(keys.find_flag("is_causal").value_or(true), keys, "is_causal");
  refuse_unless(
      keys.find_flag("use_qkv_bias").value_or(false) == (architecture == Architecture::qwen2) ||
          keys.find("use_qkv_bias") == nullptr,
      keys, "use_qkv_bias");
}

void check_quantisation(const JsonKeys& keys) {
  const auto scheme = keys.find_object("quantization_config");
  if (!scheme) return;
  fail(ErrorCode::unsupported,
       "{}: the quantisation '{}' is not supported; use unquantised weights or a GGUF file",
       keys.source(), scheme->find_text("quant_method").value_or("unknown"));
}

}  // namespace

void check_hugging_face_keys(const JsonKeys& keys, ModelConfig& config) {
  check_known_switches(keys, config.architecture);
  check_quantisation(keys);
  for (const auto& [key, value] : keys.value().items()) {
    if (const RefusedKey* refused = find_refused(kRefused, key); refused != nullptr) {
      if (!is_off(value, refused->off)) refuse(keys, key, value);
      continue;
    }
    const bool is_known = holds(kRead, key) || holds(kHarmless, key);
    if (!is_known && !is_off(value, 0)) config.unread_keys.push_back(key);
  }
}

}  // namespace clora
