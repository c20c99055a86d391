#include "model/configuration/gguf_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/configuration/key_lists.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

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
constexpr std::array<RefusedKey, 29> kRefused{{
    {"attention.clamp_kqv"},
    {"attention.max_alibi_bias"},
    {"attention.output_scale", 1},
    {"attention.scale"},
    {"attention.shared_kv_layers"},
    {"attention.temperature_scale"},
    {"attention.value_scale", 1},
    {"attn_logit_softcapping"},
    {"embedding_scale", 1},
    {"expert_count"},
    {"expert_feed_forward_length"},
    {"expert_gating_func", 1},  // softmax
    {"expert_group_count", 1},
    {"expert_group_used_count", 1},
    {"expert_shared_count"},
    {"expert_shared_feed_forward_length"},
    {"expert_weights_scale", 1},
    {"final_logit_softcapping"},
    {"full_attention_interval"},
    {"hidden_activation"},
    {"leading_dense_block_count"},
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

std::string GgufKeys::name(std::string_view key) const {
  return fmt::format("{}.{}", prefix_, key);
}

std::optional<std::int64_t> GgufKeys::find_integer(std::string_view key) const {
  read_.emplace(key);
  return file_.integer(name(key));
}

std::optional<double> GgufKeys::find_number(std::string_view key) const {
  read_.emplace(key);
  return file_.number(name(key));
}

std::optional<std::string_view> GgufKeys::find_text(std::string_view key) const {
  read_.emplace(key);
  return file_.text(name(key));
}

std::optional<bool> GgufKeys::find_flag(std::string_view key) const {
  read_.emplace(key);
  return file_.boolean(name(key));
}

std::optional<std::vector<std::int64_t>> GgufKeys::find_integers(std::string_view key,
                                                                 std::int64_t layers) const {
  read_.emplace(key);
  const GgufValue* value = file_.find_value(name(key));
  if (value == nullptr) return std::nullopt;
  auto list = value->integers();
  if (!list || std::ssize(*list) != layers) {
    fail(ErrorCode::invalid_file, "{}: {} must be a list of {} integers, one of each layer, got {}",
         path(), name(key), layers, value->summary());
  }
  return list;
}

std::optional<std::vector<bool>> GgufKeys::find_flags(std::string_view key,
                                                      std::int64_t layers) const {
  read_.emplace(key);
  const GgufValue* value = file_.find_value(name(key));
  if (value == nullptr) return std::nullopt;
  std::vector<bool> flags;
  for (const GgufValue& element : value->values().value_or(std::vector<GgufValue>())) {
    if (const auto flag = element.boolean()) flags.push_back(*flag);
  }
  if (std::ssize(flags) != layers) {
    fail(ErrorCode::invalid_file, "{}: {} must be a list of {} flags, one of each layer, got {}",
         path(), name(key), layers, value->summary());
  }
  return flags;
}

std::int64_t GgufKeys::integer(std::string_view key) const {
  const auto value = find_integer(key);
  if (!value) fail(ErrorCode::invalid_file, "{}: the key {} is missing", path(), name(key));
  return *value;
}

double GgufKeys::number(std::string_view key) const {
  const auto value = find_number(key);
  if (!value) fail(ErrorCode::invalid_file, "{}: the key {} is missing", path(), name(key));
  return *value;
}

void GgufKeys::ignore(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) read_.emplace(key);
}

std::vector<std::string> GgufKeys::unread_keys() const {
  const std::string start = name("");
  std::vector<std::string> unread;
  for (const GgufFile::Entry& entry : file_.metadata()) {
    if (!entry.key.starts_with(start)) continue;
    const std::string_view key = entry.key.substr(start.size());
    if (read_.contains(key) || holds(kHarmless, key)) continue;
    if (key == "attention.causal") {
      if (!entry.value.boolean().value_or(false)) refuse(file_, entry);
      continue;
    }
    const RefusedKey* refused = find_refused(kRefused, key);
    if (refused == nullptr) {
      if (!is_off(entry.value, 0)) unread.emplace_back(entry.key);
    } else if (!is_off(entry.value, refused->off)) {
      refuse(file_, entry);
    }
  }
  return unread;
}

}  // namespace clora
