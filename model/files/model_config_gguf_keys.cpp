// A GGUF file's metadata: which keys of an architecture are read, harmless or refused. Keys that
// llama.cpp does not read for the architecture are ignored here, too.
#include <algorithm>
#include <array>
#include <string_view>

#include "clora/model/files/gguf.hpp"
#include "model/files/model_config_gguf.hpp"
#include "model/files/model_config_key_lists.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::array<std::string_view, 17> kRead{
    "attention.head_count",   "attention.head_count_kv",
    "attention.key_length",   "attention.layer_norm_rms_epsilon",
    "attention.value_length", "block_count",
    "context_length",         "embedding_length",
    "expert_count",           "feed_forward_length",
    "rope.dimension_count",   "rope.freq_base",
    "rope.scale_linear",      "rope.scaling.attn_factor",
    "rope.scaling.factor",    "rope.scaling.type",
    "attention.causal",
};

// Sizes derived from others, keys used only with another rope type or for embeddings, and
// provenance.
constexpr std::array<std::string_view, 8> kHarmless{
    "expert_used_count",           "pooling_type",
    "rope.scaling.finetuned",      "rope.scaling.original_context_length",
    "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
    "tensor_data_layout",          "vocab_size",
};

// What llama.cpp computes from these keys, for this architecture or for others, is not implemented
// here. Each is off if it is 0, false or the given value.
constexpr std::array<RefusedKey, 20> kRefused{{
    {"attention.clamp_kqv"},
    {"attention.max_alibi_bias"},
    {"attention.output_scale", 1},
    {"attention.scale"},
    {"attention.shared_kv_layers"},
    {"attention.temperature_scale"},
    {"attention.value_scale", 1},
    {"attn_logit_softcapping"},
    {"embedding_scale", 1},
    {"final_logit_softcapping"},
    {"full_attention_interval"},
    {"hidden_activation"},
    {"logit_scale", 1},
    {"nextn_predict_layers"},
    {"residual_scale", 1},
    {"rope.freq_base_swa"},
    {"rope.scaling.alpha"},
    {"rope.scaling.yarn_attn_factor", 1},
    {"rope.scaling.yarn_ext_factor", -1},
    {"use_parallel_residual"},
}};

bool is_off(const GgufValue& value, double off) {
  if (const auto flag = value.boolean()) return !*flag;
  if (const auto text = value.text()) return text->empty() || *text == "silu";
  const auto number = value.number();
  return number && (*number == 0 || *number == off);
}

[[noreturn]] void refuse(const GgufFile& file, const GgufFile::Entry& entry) {
  fail(ErrorCode::unsupported, "{}: {} = {} is not supported: it changes what the model computes",
       file.path().string(), entry.key, entry.value.summary());
}

}  // namespace

void check_gguf_keys(const GgufFile& file, std::string_view prefix, ModelConfig& config) {
  const std::string start = fmt::format("{}.", prefix);
  const bool has_window = config.architecture == Architecture::mistral;
  for (const GgufFile::Entry& entry : file.metadata()) {
    if (!entry.key.starts_with(start)) continue;
    const std::string_view key = entry.key.substr(start.size());
    if (key == "attention.causal" && !entry.value.boolean().value_or(false)) refuse(file, entry);
    if (holds(kRead, key) || holds(kHarmless, key)) continue;
    if (key == "attention.sliding_window" && has_window) continue;
    const RefusedKey* refused = find_refused(kRefused, key);
    if (refused == nullptr) {
      if (!is_off(entry.value, 0)) config.unread_keys.emplace_back(entry.key);
    } else if (!is_off(entry.value, refused->off)) {
      refuse(file, entry);
    }
  }
}

}  // namespace clora
