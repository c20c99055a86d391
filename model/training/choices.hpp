// Multiple choice: which of several continuations of a prompt the model finds most likely.
//
// Records: {"prompt": ..., "choices": [texts], "answer": an index from 0, or the text of a choice},
// where prompt and choice are read as the prompt and the completion of a record (records.hpp): a
// text, or a list of messages, for which a choice is the assistant's reply with the token that ends
// it. Threads: one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "clora/model/data/records.hpp"
#include "clora/model/training/evaluator.hpp"

namespace clora {

struct ChoiceQuestion {
  std::vector<Record> choices = {};  // each with the prompt; the choice's tokens are labelled
  std::vector<std::int64_t> lengths =
      {};                  // of the choices, in characters (read_choice_questions())
  std::size_t answer = 0;  // index of the right choice
};

// Reads the questions of a file of records. `options` are those of the records beside them, without
// eos after a completion. The length of a choice is its number of characters (code points) without
// white space at its beginning, which separates it from the prompt.
// Errors: those of RecordTexts; invalid_data "FILE: line N: reason" for a record of another form,
// an empty prompt, fewer than two choices, an answer that is none of them, or a choice that is
// longer with its prompt than max_seq_length.
std::vector<ChoiceQuestion> read_choice_questions(const std::filesystem::path& path,
                                                  const Tokenizer& tokenizer,
                                                  const ChatTemplate* chat_template,
                                                  RecordOptions options);

// As acc and acc_norm of EleutherAI's lm-evaluation-harness: the share of questions whose right
// choice has the highest log-likelihood given the prompt, and the highest one per character. Of
// equal ones, the first counts.
struct ChoiceScores {
  double accuracy = 0, normalised_accuracy = 0;
  std::size_t questions = 0;
};

// The index of the choice with the highest value: log-likelihood, or per character. Pure.
std::size_t likeliest(const std::vector<double>& log_likelihoods);
std::size_t likeliest_per_character(const std::vector<double>& log_likelihoods,
                                    const std::vector<std::int64_t>& lengths);

// Returns the log-likelihoods of the choices, in nats, summed over their tokens. Waits. Errors:
// those of Evaluator::loss_sum(); diverged if one is not finite.
std::vector<double> log_likelihoods_of(Evaluator& evaluator, const ChoiceQuestion& question);

// Scores the questions one after the other; on_question(done) returns false to stop, which gives
// nullopt. REQUIRES: questions is not empty. Errors: those of log_likelihoods_of().
std::optional<ChoiceScores> score_choices(Evaluator& evaluator,
                                          const std::vector<ChoiceQuestion>& questions,
                                          const std::function<bool(std::size_t)>& on_question);

}  // namespace clora
