#include "tools/command_line/setting_names.hpp"

#include "tools/command_line/replace_all.hpp"

namespace clora {
namespace {

constexpr SettingName kSettings[] = {
    {"`batch_size`", "--batch-size"},
    {"`chat_template`", "--chat-template"},
    {"`clip_norm`", "--clip-norm"},
    {"`router_aux_loss_coef`", "--router-aux-loss-coef"},
    {"`context_length`", "--context"},
    {"`device_shares`", "--device-shares"},
    {"`device_report`", "the output of 'clora bench --report FILE'"},
    {"`eval_every`", "--eval-every"},
    {"`grad_accumulation`", "--grad-accumulation"},
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
  for (const auto& [setting, option] : kSettings) replace_all(message, setting, option);
  return message;
}

}  // namespace clora
