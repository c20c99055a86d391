// Exact match: the part of records whose completion a model writes as it stands there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/generator.hpp"
#include "model/records.hpp"
#include "model/tokenizer.hpp"

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

// Greedy answers, each up to a token of `end_ids`; they may be a little longer than what is wanted,
// which then cannot match. on_answer returns false to stop. Returns the part that matched of the
// answers made. REQUIRES: questions not empty.
double exact_match(LanguageModel& model, const Adapter* adapter, const Tokenizer& tokenizer,
                   const std::vector<Question>& questions, const std::vector<std::int32_t>& end_ids,
                   const std::function<bool(const Answer&)>& on_answer);

}  // namespace clora
