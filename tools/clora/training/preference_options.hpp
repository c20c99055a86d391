// The options of a preference loss (PreferenceLoss): --loss and its settings, for train and data,
// and the text of what it reports.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "clora/model/training/preference_loss.hpp"
#include "clora/model/training/training_config.hpp"
#include "tools/clora/commands/data_options.hpp"
#include "tools/command_line/cli_declarations.hpp"

namespace clora {

struct PreferenceOptions {
  std::string loss = "sft";
  double beta = 0.1;
  double label_smoothing = 0;
  double desirable_weight = 1, undesirable_weight = 1;

  // Nullopt for --loss sft.
  std::optional<PreferenceLoss> preference() const;
  // Errors: those of check().
  void apply_to(TrainingRunConfig& config) const { config.preference = preference(); }
  // Changes how records are read to the form that the loss needs. Errors: invalid_argument if the
  // task is another one than the prediction of text.
  void apply_to(DataOptions& data) const;
};

void add_loss_option(CLI::App& command, PreferenceOptions& options, const std::string& group);
// With --loss.
void add_preference_options(CLI::App& command, PreferenceOptions& options);

// Adds the scores as keys of an event.
void add_to(nlohmann::ordered_json& event, const std::vector<PreferenceScore>& scores);
// "margin 0.512  accuracy 0.75", or a part of it; empty without scores.
std::string text_of(const std::vector<PreferenceScore>& scores);

}  // namespace clora
