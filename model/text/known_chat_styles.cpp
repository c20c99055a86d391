#include "model/text/known_chat_styles.hpp"

#include <algorithm>
#include <array>

namespace clora {
namespace {

constexpr ChatStyle chatml(std::string_view name, std::string_view default_system = {},
                           bool writes_bos = false, Thinking thinking = Thinking::none) {
  ChatStyle style{.name = name};
  style.default_system = default_system;
  style.writes_bos = writes_bos;
  style.thinking = thinking;
  return style;
}

constexpr ChatStyle llama3(std::string_view name, bool writes_dates = false,
                           bool always_opens_turn = false) {
  ChatStyle style{.name = name, .family = ChatFamily::llama3, .writes_bos = true};
  style.writes_dates = writes_dates;
  style.always_opens_turn = always_opens_turn;
  return style;
}

constexpr ChatStyle mistral(std::string_view name, SystemPlace system, std::string_view begin,
                            std::string_view end, std::string_view assistant_begin,
                            std::string_view assistant_end = {}) {
  ChatStyle style{.name = name, .family = ChatFamily::mistral, .writes_bos = true};
  style.system = system;
  style.user_begin = begin;
  style.user_end = end;
  style.assistant_begin = assistant_begin;
  style.assistant_end = assistant_end;
  return style;
}

constexpr ChatStyle gemma(std::string_view name, SystemPlace system) {
  ChatStyle style{.name = name, .family = ChatFamily::gemma, .writes_bos = true};
  style.system = system;
  return style;
}

constexpr ChatStyle with_trimmed_answers(ChatStyle style) {
  style.trims_assistant = true;
  return style;
}

constexpr std::string_view kHelpful = "You are a helpful assistant.";
constexpr std::string_view kSmol =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
constexpr std::string_view kQwen =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

constexpr std::array kStyles = {
    chatml("chatml"),
    chatml("chatml-bos", {}, true),
    chatml("smollm2", kSmol),
    chatml("hermes3", kHelpful, true),
    chatml("qwen2", kHelpful),
    chatml("qwen2.5", kQwen),
    chatml("qwen3", {}, false, Thinking::optional),
    chatml("qwen3-instruct"),
    chatml("qwen3-thinking", {}, false, Thinking::always),
    llama3("llama3"),
    llama3("llama3-first", false, true),
    llama3("llama3.1", true),
    llama3("llama3.2", true),
    mistral("mistral-v0.1", SystemPlace::refused, "[INST] ", " [/INST]", "", " "),
    mistral("mistral-v0.2", SystemPlace::refused, "[INST] ", " [/INST]", ""),
    mistral("mistral-v1", SystemPlace::first_user, " [INST] ", " [/INST]", " "),
    mistral("mistral-v2", SystemPlace::last_user, "[INST] ", "[/INST]", " "),
    with_trimmed_answers(mistral("mistral-v3", SystemPlace::last_user, "[INST] ", "[/INST]", " ")),
    mistral("mistral-nemo", SystemPlace::last_user, "[INST]", "[/INST]", ""),
    mistral("mistral-v7", SystemPlace::own_turn, "[INST] ", "[/INST]", " "),
    mistral("mistral-v7-tekken", SystemPlace::own_turn, "[INST]", "[/INST]", ""),
    ChatStyle{.name = "zephyr", .family = ChatFamily::zephyr},
    gemma("gemma", SystemPlace::refused),
    gemma("gemma3", SystemPlace::first_user),
};

struct KnownTemplate {
  std::string_view fingerprint, style;
};

// The published texts, and the models whose files contain them.
constexpr auto kTemplates = std::to_array<KnownTemplate>({
    {"b04add4d790d7aaae6f62f2e5f2a83a1", "chatml"},      // OpenHermes 2.5, transformers' own ChatML
    {"cc07d367fee49c327810968f4327ceb0", "chatml"},      // Dolphin
    {"209d3db5aa159ecb928ae10367af62e6", "chatml-bos"},  // InternLM 2, Nous Hermes 2
    {"088fc8cd00aa414d2a2ceb310ad0450c", "smollm2"},     // SmolLM2
    {"1d845eb290f516382a3ab8079a07458c", "hermes3"},     // Hermes 3
    {"1c79e2d7f53174bebd1c5d156f67db6d", "qwen2"},       // Qwen2
    {"f1eeb28a92608c1301ec9f574ac2ef9f", "qwen2.5"},     // Qwen2.5
    {"23d8fc15488ab7bcdd2f75d144f8d7d3", "qwen2.5"},     // Qwen2.5, an earlier revision
    {"04dcef3c065498037d21a64e19982a6b", "qwen3"},       // Qwen3
    {"ece6dab16de534f8cbcdbe32201df224", "qwen3"},       // Qwen3, a later revision
    {"363b1bfeee7c4f02f2905c900464b511", "qwen3-instruct"},  // Qwen3 Instruct 2507
    {"5ce507c646e95ff41ec368ddf84d718b", "qwen3-thinking"},  // Qwen3 Thinking
    {"09facc0e4aa943189799ad6e2dea0594", "llama3"},          // Llama 3
    {"b6117b577421a082c620ae2775866bfb", "llama3"},          // Llama 3, by axolotl
    {"8f20b9eda669ce10b97891b7adc1beb8", "llama3-first"},    // Llama 3, its first revision
    {"1485691330b8289e1f2cba399d1a6508", "llama3.1"},        // Llama 3.1, Llama 3.3
    {"7b046da873a34fc290ff624ba7870be1", "llama3.2"},        // Llama 3.2
    {"70bf874ad98f31f4b7f52373b11c60d7", "mistral-v0.1"},    // Mistral 7B v0.1
    {"21bba24e65b46a4eadecf636dfa86e58", "mistral-v0.2"},    // Mistral 7B v0.2, first revision
    {"21c06586eb0ffbf4a5f87e17fa952dae", "mistral-v1"},      // Mistral 7B v0.2
    {"734cced3c21ac66b70e9ea7d6aecc4bf", "mistral-v1"},      // the same, by axolotl
    {"7b932466774e90e599e2eddd704829a3", "mistral-v2"},      // Mixtral 8x22B
    {"871487b01e938a96bb92391cf9973a8f", "mistral-v3"},      // Mistral 7B v0.3, Mistral Large 2407
    {"14916b3eac579f452975cdc8d402c751", "mistral-v3"},      // the same, by axolotl
    {"3e1c5b4443c2c9405fba858cf1d0e928", "mistral-nemo"},    // Mistral Nemo
    {"c12d424f1fdb8f36420968a845f0ba1e", "mistral-nemo"},    // Mistral Nemo, an earlier revision
    {"3343c9de41c80ead16ad185fef2613ad", "mistral-nemo"},    // the same, by axolotl
    {"5b658f89dcb1716f11381d1c62000f60", "mistral-v7"},      // Mistral Large 2411
    {"3210f443f276f16a02cdc546cb24cabe", "mistral-v7-tekken"},  // Mistral Small 2501
    {"649a2a57b1f7915059b45444879a71e0", "zephyr"},             // Zephyr, TinyLlama
    {"1979b049d26eb400438bf49c2cd4d3e4", "gemma"},              // Gemma 1 and 2
    {"ee866ee4ed0b9ae1101f9d79420a87f9", "gemma3"},             // Gemma 3
    {"943df97b3ceb801c31facce3e67c8cbd", "gemma3"},             // the same, by axolotl
});

}  // namespace

std::span<const ChatStyle> known_chat_styles() { return kStyles; }

const ChatStyle* find_chat_style(std::string_view name) {
  const auto found = std::ranges::find(kStyles, name, &ChatStyle::name);
  return found == kStyles.end() ? nullptr : &*found;
}

const ChatStyle* find_style_of_template(std::string_view fingerprint) {
  const auto found = std::ranges::find(kTemplates, fingerprint, &KnownTemplate::fingerprint);
  return found == kTemplates.end() ? nullptr : find_chat_style(found->style);
}

std::string known_chat_style_names() {
  std::string names;
  for (const ChatStyle& style : kStyles) names.append(names.empty() ? "" : ", ").append(style.name);
  return names;
}

}  // namespace clora
