// RunEvaluation: what a training run computes at each validation besides the held-out loss: exact
// match of generated replies, the scores of a user's own command, and multiple choice.
//
// Refers to the constructor's arguments. Memory that it needs on the device is taken and given back
// at each validation. Not thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/memory_planner.hpp"
#include "tools/clora/choices.hpp"
#include "tools/clora/exact_match.hpp"
#include "tools/clora/interrupt.hpp"
#include "tools/clora/loaded_model.hpp"
#include "tools/clora/training/evaluation_options.hpp"

namespace clora {

class RunEvaluation {
 public:
  // valid: null without held-out records. Errors: invalid_data if there are choices, but no
  // held-out records, or if replies are requested, but no held-out record has a prompt and a
  // completion.
  RunEvaluation(const EvaluationOptions& options, std::vector<ChoiceQuestion> choices,
                const Records* valid);

  // Adds the memory of an evaluation to what is planned.
  void add_to(PlannedRun& run) const;

  // Returns the scores as keys of an event: "exact_match", "accuracy", "normalised_accuracy", and
  // "scores" with those of the command. Scores are left out when the user interrupts them. A
  // command that fails is a warning, and "eval_command_error" its message, unless it is required.
  // Errors: invalid_data from a required command; those of exact_match() and score_choices().
  nlohmann::ordered_json scores(LoadedModel& loaded, const Adapter& adapter, const ModelText& text,
                                const Interrupt& interrupt, Output& output) const;

 private:
  void add_replies(nlohmann::ordered_json& scores, LoadedModel& loaded, const Adapter& adapter,
                   const ModelText& text, const Interrupt& interrupt, Output& output) const;
  void add_command(nlohmann::ordered_json& scores, const std::vector<Answer>& answers,
                   Output& output) const;

  const EvaluationOptions& options_;
  std::vector<ChoiceQuestion> choices_;
  std::vector<Question> questions_;
};

// "exact match 62.5 %  accuracy 0.7500 (per character 0.7188)  bleu 12.1"; empty without scores.
std::string text_of_scores(const nlohmann::ordered_json& scores);

}  // namespace clora
