#include "tools/clora/training/preference_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/fail.hpp"
#include "tools/command_line/number_options.hpp"

namespace clora {

std::optional<PreferenceLoss> PreferenceOptions::preference() const {
  const std::optional<PreferenceKind> kind = find_preference(loss);
  if (!kind) return std::nullopt;
  const PreferenceLoss found{{.kind = *kind,
                              .beta = static_cast<float>(beta),
                              .label_smoothing = static_cast<float>(label_smoothing),
                              .desirable_weight = static_cast<float>(desirable_weight),
                              .undesirable_weight = static_cast<float>(undesirable_weight)}};
  check(found);
  return found;
}

void PreferenceOptions::apply_to(DataOptions& data) const {
  const std::optional<PreferenceLoss> found = preference();
  if (!found) return;
  require(!data.pairs, "--loss {} compares answers, which --task embedding has none of", loss);
  data.preference = found->has_pairs() ? PreferenceForm::pairs : PreferenceForm::labelled;
}

void add_loss_option(CLI::App& command, PreferenceOptions& options, const std::string& group) {
  command
      .add_option(
          "--loss", options.loss,
          "sft: the next token; dpo, ipo, orpo: of pairs of a chosen and a rejected answer; "
          "kto: of answers with a label")
      ->check(CLI::IsMember({"sft", "dpo", "ipo", "orpo", "kto"}))
      ->capture_default_str()
      ->group(group);
}

void add_preference_options(CLI::App& command, PreferenceOptions& options) {
  const std::string group = "Preferences";
  add_loss_option(command, options, group);
  command
      .add_option("--beta", options.beta,
                  "Factor of rewards in a preference loss; of orpo, weight of the odds ratio")
      ->transform(NumberAbove(0, 1e3))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--preference-label-smoothing", options.label_smoothing,
                  "Share of the pairs of dpo that are taken to be swapped")
      ->transform(Number(0, 0.499))
      ->type_name("SHARE")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--desirable-weight", options.desirable_weight,
                  "Weight of kto's answers with the label true")
      ->transform(Number(0, 1e3))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--undesirable-weight", options.undesirable_weight,
                  "Weight of kto's answers with the label false")
      ->transform(Number(0, 1e3))
      ->capture_default_str()
      ->group(group);
}

void add_to(nlohmann::ordered_json& event, const std::vector<PreferenceScore>& scores) {
  for (const PreferenceScore& score : scores) event[score.name] = score.value;
}

std::string text_of(const std::vector<PreferenceScore>& scores) {
  std::string text;
  for (const PreferenceScore& score : scores) {
    const std::string_view name = score.name;
    const char* shown = name == "rewards/margins"      ? "margin"
                        : name == "rewards/accuracies" ? "accuracy"
                                                       : nullptr;
    if (shown == nullptr) continue;
    text += fmt::format("{}{} {:.3f}", text.empty() ? "" : "  ", shown, score.value);
  }
  return text;
}

}  // namespace clora
