#include "lora/peft_keys.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "clora/lora/adapter.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 1> kPeftTypes{"LORA"};
constexpr std::array<std::string_view, 2> kTaskTypes{kCausalLanguageModel, kFeatureExtraction};
constexpr std::array<std::string_view, 3> kBiases{"none", "all", "lora_only"};

// Supported keys of LoraConfig of PEFT 0.21.2 and older releases.
constexpr std::array<std::string_view, 16> kUnderstood{"peft_type",
                                                       "r",
                                                       "lora_alpha",
                                                       "lora_dropout",
                                                       "use_rslora",
                                                       "use_dora",
                                                       "base_model_name_or_path",
                                                       "target_modules",
                                                       "exclude_modules",
                                                       "modules_to_save",
                                                       "layers_pattern",
                                                       "layers_to_transform",
                                                       "rank_pattern",
                                                       "alpha_pattern",
                                                       "ensure_weight_tying",
                                                       "init_lora_weights"};

// These keys record where an adapter comes from and how it was initialised or trained, or hold
// settings of methods that another key enables.
constexpr std::array<std::string_view, 14> kHarmless{
    "_commit_hash",      "auto_mapping",   "corda_config",   "eva_config",    "inference_mode",
    "loftq_config",      "lora_ga_config", "megatron_core",  "merge_weights", "peft_version",
    "qalora_group_size", "revision",       "runtime_config", "velora_config"};

// Methods that compute neither W x + scale B A x nor DoRA, with a description for messages. Each is
// off if its key is absent, null, false or empty.
struct Method {
  std::string_view key, what;
};
constexpr std::array<Method, 12> kMethods{{
    {"alora_invocation_tokens", "an adapter that is active only after its invocation tokens"},
    {"arrow_config", "routing between several adapters"},
    {"fan_in_fan_out", "weights stored transposed"},
    {"kasa_config", "KaSA"},
    {"layer_replication", "a base model with repeated layers"},
    {"lora_bias", "a bias in lora_B"},
    {"megatron_config", "Megatron's layers"},
    {"monteclora_config", "matrices drawn at random"},
    {"target_parameters", "adapters of parameters outside linear layers"},
    {"trainable_token_indices", "trained token embeddings"},
    {"use_bdlora", "block-diagonal matrices"},
    {"use_qalora", "QALoRA"},
}};

// Initialisations that change only A and B, not the weights of the base model.
constexpr std::array<std::string_view, 3> kPlainStarts{"gaussian", "eva", "orthogonal"};

bool is_off(const Json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& list, std::string_view key) {
  return std::ranges::find(list, key) != list.end();
}

[[noreturn]] void refuse(const OrderedJsonKeys& keys, std::string_view key, const Json& value,
                         std::string_view why) {
  fail(ErrorCode::unsupported, "{}: {} = {} is not supported ({}); only LoRA, rsLoRA and DoRA are",
       keys.source(), key, json_excerpt(value), why);
}

// Requires the text of `key` to be one of `known`; the key may be absent.
template <std::size_t N>
void require_one_of(const OrderedJsonKeys& keys, std::string_view key, std::string_view why,
                    const std::array<std::string_view, N>& known) {
  const Json* value = keys.find(key);
  if (value == nullptr) return;
  if (!value->is_string() || !holds(known, value->get_ref<const std::string&>()))
    refuse(keys, key, *value, why);
}

// PiSSA, OLoRA, CorDA and LoRA-GA change the base model's weights to W - scale * b0 a0 when
// training begins: the saved adapter fits only the changed weights, which are not available here.
// PEFT writes `true` after it has converted such an adapter to the original weights.
constexpr std::array<std::string_view, 4> kChangingStarts{"pissa", "olora", "corda", "lora_ga"};

bool changes_base(const std::string& start) {
  return holds(kChangingStarts, start) || start.starts_with("pissa_niter_");
}

void check_start(const OrderedJsonKeys& keys, BaseWeights base) {
  constexpr std::string_view kKey = "init_lora_weights";
  const Json* value = keys.find(kKey);
  const bool is_text = value != nullptr && value->is_string();
  if (is_text && changes_base(value->get_ref<const std::string&>())) {
    if (base != BaseWeights::original) return;
    refuse(keys, kKey, *value,
           "the adapter is for base weights that its initialisation changed; convert it with clora "
           "adapters convert and the adapter as it was saved before its first step, or with PEFT's "
           "save_pretrained(..., path_initial_model_for_weight_conversion=...)");
  }
  const bool is_plain = value == nullptr || value->is_boolean() ||
                        (is_text && holds(kPlainStarts, value->get_ref<const std::string&>()));
  if (!is_plain) {
    refuse(keys, kKey, *value, "it changes the base model's weights or trains other matrices");
  }
  if (base != BaseWeights::changed) return;
  fail(ErrorCode::unsupported,
       "{}: {} is {}, so that the adapter is for the base model's own weights and needs no "
       "conversion",
       keys.source(), kKey, value == nullptr ? "not given" : json_excerpt(*value));
}

}  // namespace

void refuse_peft_keys(const OrderedJsonKeys& keys, BaseWeights base) {
  require_one_of(keys, "peft_type", "an adapter type other than LORA", kPeftTypes);
  require_one_of(keys, "task_type",
                 "a task other than causal language modelling and feature extraction", kTaskTypes);
  require_one_of(keys, "bias", "other trained biases", kBiases);
  check_start(keys, base);
  for (const auto& [key, value] : keys.value().items()) {
    if (is_off(value) || holds(kUnderstood, key) || holds(kHarmless, key)) continue;
    if (key == "task_type" || key == "bias") continue;  // checked above
    const auto method = std::ranges::find(kMethods, std::string_view(key), &Method::key);
    refuse(keys, key, value,
           method == kMethods.end() ? "an unknown key that is enabled" : method->what);
  }
}

}  // namespace clora
