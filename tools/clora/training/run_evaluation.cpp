#include "tools/clora/training/run_evaluation.hpp"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/fail.hpp"
#include "tools/clora/scoring_command.hpp"

namespace clora {

RunEvaluation::RunEvaluation(const EvaluationOptions& options, std::vector<ChoiceQuestion> choices,
                             const Records* valid)
    : options_(options), choices_(std::move(choices)) {
  if (!choices_.empty() && valid == nullptr) {
    fail(ErrorCode::invalid_data,
         "train: --eval-choices is scored when held-out records are, but there are none");
  }
  if (!options.generates()) return;
  if (valid != nullptr) questions_ = questions_of(*valid);
  if (questions_.empty()) {
    fail(ErrorCode::invalid_data,
         "train: {} requires held-out records with a prompt and a completion, got none",
         options.exact_match ? "--eval-exact-match" : "--eval-command");
  }
  const auto replies = static_cast<std::size_t>(options.replies);
  if (replies > 0 && replies < questions_.size()) questions_.resize(replies);
}

void RunEvaluation::add_to(PlannedRun& run) const {
  if (!questions_.empty()) run.reply_positions = positions_for(questions_);
  for (const ChoiceQuestion& question : choices_) {
    for (const Record& choice : question.choices) {
      const WantedRows wanted = wanted_rows(pack_rows(std::span(&choice, 1), choice.ids.size()));
      if (wanted.rows > run.scored.rows) run.scored = wanted;
    }
  }
}

nlohmann::ordered_json RunEvaluation::scores(LoadedModel& loaded, const Adapter& adapter,
                                             const ModelText& text, const Interrupt& interrupt,
                                             Output& output) const {
  nlohmann::ordered_json scores = nlohmann::ordered_json::object();
  if (!questions_.empty()) add_replies(scores, loaded, adapter, text, interrupt, output);
  if (choices_.empty() || interrupt.requested()) return scores;
  Evaluator evaluator(loaded.model(), &adapter);
  const auto of_choices =
      score_choices(evaluator, choices_, [&](std::size_t) { return !interrupt.requested(); });
  if (!of_choices) return scores;
  scores["accuracy"] = of_choices->accuracy;
  scores["normalised_accuracy"] = of_choices->normalised_accuracy;
  return scores;
}

void RunEvaluation::add_replies(nlohmann::ordered_json& scores, LoadedModel& loaded,
                                const Adapter& adapter, const ModelText& text,
                                const Interrupt& interrupt, Output& output) const {
  std::vector<Answer> answers;
  // A command reads complete replies; exact match alone may cut those short that cannot match.
  const std::size_t complete = options_.command.empty() ? 0 : questions_.size();
  const double matched = exact_match(loaded.model(), &adapter, text.tokenizer(), questions_,
                                     {.end_ids = loaded.end_ids(text), .full_answers = complete},
                                     [&](const Answer& answer) {
                                       answers.push_back(answer);
                                       return !interrupt.requested();
                                     });
  if (answers.size() < questions_.size()) return;
  if (options_.exact_match) scores["exact_match"] = matched;
  if (!options_.command.empty()) add_command(scores, answers, output);
}

void RunEvaluation::add_command(nlohmann::ordered_json& scores, const std::vector<Answer>& answers,
                                Output& output) const {
  try {
    scores["scores"] = scores_by_command(options_.command, options_.command_seconds, answers);
  } catch (const Error& error) {
    if (options_.command_required) throw;
    scores["eval_command_error"] = error.what();
    output.warning("{}; the run continues", error.what());
  }
}

std::string text_of_scores(const nlohmann::ordered_json& scores) {
  std::vector<std::string> parts;
  if (scores.contains("exact_match")) {
    parts.push_back(fmt::format("exact match {:.1f} %", 100 * scores["exact_match"].get<double>()));
  }
  if (scores.contains("accuracy")) {
    parts.push_back(fmt::format("accuracy {:.4f} (per character {:.4f})",
                                scores["accuracy"].get<double>(),
                                scores["normalised_accuracy"].get<double>()));
  }
  if (scores.contains("scores")) {
    for (const auto& [name, score] : scores["scores"].items()) {
      parts.push_back(fmt::format("{} {:.4g}", name, score.get<double>()));
    }
  }
  return fmt::format("{}", fmt::join(parts, "  "));
}

}  // namespace clora
