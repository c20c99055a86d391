// Exact match: the fraction of records whose completion the model generates verbatim.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "clora/model/data/records.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora {

// The prompt and reference answer of a record: the tokens before its first target, and the
// contiguous targets from there; of answers that are compared, the preferred or desirable one.
struct Question {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> answer;
};

// The questions of the records that have a prompt and such an answer; a {"text"} record has none.
// Pure.
std::vector<Question> questions_of(const Records& records);

// The number of tokens that a reply may have: a quarter more than the reference, since the model
// may generate the same text in more tokens than the tokeniser would use.
std::int64_t reply_limit(const Question& question);
// The prompt as text, without the beginning-of-text token and white space at both ends.
std::string prompt_text(const Question& question, const Tokenizer& tokenizer);

struct Answer {
  std::string prompt, wanted, got;  // wanted and got are stripped of white space at both ends
  bool exact() const { return wanted == got; }
};

struct ExactMatchConfig {
  std::vector<std::int32_t> end_ids;  // an answer ends at one of these
  // The first N answers are not cut short and may be a little longer than the reference. Later
  // answers stop as soon as they cannot match any more.
  std::size_t full_answers = 0;
};

// The positions of the Generator that exact_match() makes. REQUIRES: as there.
std::int64_t positions_for(const std::vector<Question>& questions);

// Generates answers greedily and returns the fraction of them that match. on_answer returns false
// to stop. REQUIRES: questions is not empty.
double exact_match(LanguageModel& model, const Adapter* adapter, const Tokenizer& tokenizer,
                   const std::vector<Question>& questions, const ExactMatchConfig& config,
                   const std::function<bool(const Answer&)>& on_answer);

}  // namespace clora
