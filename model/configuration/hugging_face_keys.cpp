#include "model/configuration/hugging_face_keys.hpp"

#include <algorithm>
#include <array>

#include "model/configuration/key_lists.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using nlohmann::json;

// Training, sampling, storage, provenance and bookkeeping: keys that transformers 5.23 or older
// releases write to the files of these architectures.
constexpr std::array<std::string_view, 66> kHarmless{"_attn_implementation",
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
                                                     "use_cache",
                                                     "architectures",
                                                     "model_type"};

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

}  // namespace

void HuggingFaceKeys::refuse(std::string_view key) const {
  fail(ErrorCode::unsupported, "{}: {} = {} is not supported: it changes what the model computes",
       source(), key, json_excerpt(*find(key)));
}

void HuggingFaceKeys::refuse_if(bool is_unsupported, std::string_view key) const {
  if (is_unsupported) refuse(key);
}

void HuggingFaceKeys::ignore(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) read_.emplace(key);
}

std::vector<std::string> HuggingFaceKeys::unread_keys() const {
  std::vector<std::string> unread;
  for (const auto& [key, value] : keys_.value().items()) {
    if (read_.contains(key)) continue;
    if (const RefusedKey* refused = find_refused(kRefused, key); refused != nullptr) {
      refuse_if(!is_off(value, refused->off), key);
    } else if (!holds(kHarmless, key) && !is_off(value, 0)) {
      unread.push_back(key);
    }
  }
  return unread;
}

}  // namespace clora
