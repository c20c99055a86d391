// Exact match: the part of records whose completion a model writes as it stands there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/data/records.hpp"
#include "model/generation/generator.hpp"
#include "model/text/tokenizer.hpp"

namespace clora {

// What is asked and wanted of a record: the tokens before its first target, and the targets that
// follow one another from there.
struct Question {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> answer;
};

// Those of the records that have a prompt; a {"text"} record has none. Pure.
std::vector<Question> questions_of(const Records& records);

struct Answer {
  std::string prompt, wanted, got;  // white space at both ends taken off the last two
  bool exact() const { return wanted == got; }
};

struct ExactMatchConfig {
  std::vector<std::int32_t> end_ids;  // an answer ends at one of these
  // The first so many answers are written to their end, a little beyond what is wanted; later ones
  // stop where they cannot match any more.
  std::size_t whole_answers = 0;
};

// Greedy answers. on_answer returns false to stop. Returns the part that matched of the answers
// made. REQUIRES: questions not empty.
double exact_match(LanguageModel& model, const Adapter* adapter, const Tokenizer& tokenizer,
                   const std::vector<Question>& questions, const ExactMatchConfig& config,
                   const std::function<bool(const Answer&)>& on_answer);

}  // namespace clora
