#include "tools/clora/training/run_evaluation.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/fail.hpp"
#include "tools/clora/scoring_command.hpp"

namespace clora {
namespace {

// Every N-th element for a rank among N.
template <class T>
std::vector<T> part_of(const std::vector<T>& all, const Communicator* ranks) {
  if (ranks == nullptr) return all;
  std::vector<T> part;
  const auto count = static_cast<std::size_t>(ranks->size());
  for (auto i = static_cast<std::size_t>(ranks->rank()); i < all.size(); i += count) {
    part.push_back(all[i]);
  }
  return part;
}

// The answers of all ranks in the order of the questions that part_of() has dealt; fewer if a rank
// has not answered all of its own. Collective.
std::vector<Answer> gathered(const std::vector<Answer>& own, Communicator& ranks) {
  nlohmann::json texts = nlohmann::json::array();
  for (const Answer& answer : own) texts.push_back({answer.prompt, answer.wanted, answer.got});
  // CBOR: a reply that was cut within a character is not UTF-8, which JSON would require.
  std::string bytes;
  nlohmann::json::to_cbor(texts, bytes);
  std::vector<nlohmann::json> parts;
  for (const std::string& part : ranks.all_gather(bytes)) {
    parts.push_back(nlohmann::json::from_cbor(part));
  }
  std::vector<Answer> all;
  for (std::size_t i = 0;; ++i) {
    const nlohmann::json& part = parts[i % parts.size()];
    if (i / parts.size() >= part.size()) return all;
    const nlohmann::json& texts_of_one = part[i / parts.size()];
    all.push_back({texts_of_one[0], texts_of_one[1], texts_of_one[2]});
  }
}

// The scores of the questions of all ranks. Collective.
ChoiceScores gathered(const ChoiceScores& own, Communicator& ranks) {
  const auto of_all = [&](double value) {
    const std::vector<double> values = gather_values(ranks, value);
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  const auto count = static_cast<double>(own.questions);
  const double questions = of_all(count);
  // Numbers of questions, whose sums are exact.
  const double right = of_all(std::round(own.accuracy * count));
  const double right_per_character = of_all(std::round(own.normalised_accuracy * count));
  if (questions == 0) return {};
  return {right / questions, right_per_character / questions, static_cast<std::size_t>(questions)};
}

double share_of_exact(const std::vector<Answer>& answers) {
  const auto exact = std::ranges::count_if(answers, &Answer::exact);
  return static_cast<double>(exact) / static_cast<double>(answers.size());
}

}  // namespace

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

nlohmann::ordered_json RunEvaluation::scores(const ScoredModel& scored, Output& output) const {
  nlohmann::ordered_json scores = nlohmann::ordered_json::object();
  if (const auto all = answers(scored); all && !all->empty()) {
    if (options_.exact_match) scores["exact_match"] = share_of_exact(*all);
    if (!options_.command.empty()) add_command(scores, *all, output);
  }
  if (const auto of_choices = choice_scores(scored); of_choices && of_choices->questions > 0) {
    scores["accuracy"] = of_choices->accuracy;
    scores["normalised_accuracy"] = of_choices->normalised_accuracy;
  }
  return scores;
}

void RunEvaluation::take_part(const ScoredModel& scored) const {
  (void)answers(scored);
  (void)choice_scores(scored);
}

// The answers of all ranks in the order of their questions; nullopt if a rank was told to stop.
std::optional<std::vector<Answer>> RunEvaluation::answers(const ScoredModel& scored) const {
  const std::vector<Question> own = part_of(questions_, scored.ranks);
  std::vector<Answer> answers;
  // A command reads complete replies; exact match alone may cut those short that cannot match.
  const std::size_t complete = options_.command.empty() ? 0 : own.size();
  if (!own.empty()) {
    exact_match(scored.model, &scored.adapter, scored.text.tokenizer(), own,
                {.end_ids = scored.text.end_ids(scored.model.config()), .full_answers = complete},
                [&](const Answer& answer) {
                  answers.push_back(answer);
                  return !scored.should_stop();
                });
  }
  if (scored.ranks != nullptr) answers = gathered(answers, *scored.ranks);
  if (answers.size() < questions_.size()) return std::nullopt;
  return answers;
}

// Of all ranks; nullopt if one was told to stop.
std::optional<ChoiceScores> RunEvaluation::choice_scores(const ScoredModel& scored) const {
  const std::vector<ChoiceQuestion> own = part_of(choices_, scored.ranks);
  std::optional<ChoiceScores> scores = ChoiceScores{};
  if (!own.empty()) {
    Evaluator evaluator(scored.model, &scored.adapter);
    scores = score_choices(evaluator, own, [&](std::size_t) { return !scored.should_stop(); });
  }
  if (scored.ranks == nullptr) return scores;
  if (any_rank(*scored.ranks, !scores.has_value())) return std::nullopt;
  return gathered(*scores, *scored.ranks);
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
