// RunEvaluation: what a training run computes at each validation besides the held-out loss: exact
// match of generated replies, the scores of a user's own command, and multiple choice.
//
// In a run of several ranks each generates and scores a part of the questions. Refers to the
// constructor's arguments. Memory that it needs on the device is taken and given back at each
// validation. Thread-safe.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "clora/model/training/choices.hpp"
#include "clora/model/training/communicator.hpp"
#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/memory_planner.hpp"
#include "tools/clora/exact_match.hpp"
#include "tools/clora/model_text.hpp"
#include "tools/clora/training/evaluation_options.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

// What a rank of the run evaluates.
struct ScoredModel {
  LanguageModel& model;
  const Adapter& adapter;
  const ModelText& text;
  Communicator* ranks;                // null: the run has one
  std::function<bool()> should_stop;  // called between questions
};

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
  // "scores" with those of the command. Scores are left out if any rank was told to stop. A command
  // that fails is a warning, and "eval_command_error" its message, unless it is required.
  // Collective, with take_part() of the other ranks. Errors: invalid_data from a required command;
  // those of exact_match(), score_choices() and Communicator.
  nlohmann::ordered_json scores(const ScoredModel& scored, Output& output) const;
  // Computes a rank's part for the rank that calls scores(). Errors: as there.
  void take_part(const ScoredModel& scored) const;

 private:
  std::optional<std::vector<Answer>> answers(const ScoredModel& scored) const;
  std::optional<ChoiceScores> choice_scores(const ScoredModel& scored) const;
  void add_command(nlohmann::ordered_json& scores, const std::vector<Answer>& answers,
                   Output& output) const;

  const EvaluationOptions& options_;
  std::vector<ChoiceQuestion> choices_;
  std::vector<Question> questions_;
};

// "exact match 62.5 %  accuracy 0.7500 (per character 0.7188)  bleu 12.1"; empty without scores.
std::string text_of_scores(const nlohmann::ordered_json& scores);

}  // namespace clora
