#include "tools/command_line/setting_names.hpp"

namespace clora {
namespace {

constexpr SettingName kSettings[] = {
    {"`batch_size`", "--batch-size"},
    {"`chat_template`", "--chat-template"},
    {"`clip_norm`", "--clip-norm"},
    {"`context_length`", "--context"},
    {"`learning_rate`", "--lr"},
    {"`limit`", "--limit"},
    {"`max_seq_length`", "--max-seq-length"},
    {"`rank`", "--rank"},
    {"`steps`", "--steps"},
    {"start a new run from its adapter", "start a new run from its adapter with --adapter-init"},
};

}  // namespace

std::span<const SettingName> setting_names() { return kSettings; }

std::string with_option_names(std::string_view text) {
  std::string message(text);
  for (const auto& [setting, option] : kSettings) {
    const std::string from = setting, to = option;
    for (std::size_t at = 0; (at = message.find(from, at)) != std::string::npos; at += to.size()) {
      message.replace(at, from.size(), to);
    }
  }
  return message;
}

}  // namespace clora
