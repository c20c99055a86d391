#include "tools/clora/exact_match.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {
namespace {

std::string stripped(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// Whether the text so far can still become `wanted`, ignoring white space at both ends.
bool begins(const std::string& wanted, const std::string& so_far) {
  return wanted.starts_with(stripped(so_far));
}

}  // namespace

std::int64_t reply_limit(const Question& question) {
  return static_cast<std::int64_t>(question.answer.size()) * 5 / 4 + 8;
}

std::string prompt_text(const Question& question, const Tokenizer& tokenizer) {
  std::span<const std::int32_t> ids = question.prompt;
  if (tokenizer.bos() == ids.front()) ids = ids.subspan(1);
  return stripped(tokenizer.decode(ids, {.keep_special = true}));
}

std::vector<Question> questions_of(const Records& records) {
  std::vector<Question> questions;
  for (const RecordView record : records.records) {
    const auto first = std::ranges::find(record.is_target, 1);
    const auto last =
        std::find_if(first, record.is_target.end(), [](std::uint8_t mark) { return mark != 1; });
    const auto begin = first - record.is_target.begin();
    const auto end = last - record.is_target.begin();
    if (begin < 2 || begin == end) continue;  // a text is scored from its second token on
    const std::span<const std::int32_t> ids = record.ids;
    questions.push_back(
        {{ids.begin(), ids.begin() + begin}, {ids.begin() + begin, ids.begin() + end}});
  }
  return questions;
}

std::int64_t positions_for(const std::vector<Question>& questions) {
  std::int64_t most = 0;
  for (const Question& question : questions) {
    most =
        std::max(most, static_cast<std::int64_t>(question.prompt.size()) + reply_limit(question));
  }
  return most + 1;
}

double exact_match(LanguageModel& model, const Adapter* adapter, const Tokenizer& tokenizer,
                   const std::vector<Question>& questions, const ExactMatchConfig& config,
                   const std::function<bool(const Answer&)>& on_answer) {
  require(!questions.empty(), "exact match: at least one question is needed, got none");
  Generator generator(model, adapter, positions_for(questions));
  std::size_t generated = 0, matched = 0;
  for (const Question& question : questions) {
    Answer answer{
        prompt_text(question, tokenizer), stripped(tokenizer.decode(question.answer)), {}};
    std::vector<std::int32_t> ids;
    const auto can_match = [&](std::int32_t id) {
      ids.push_back(id);
      return generated < config.full_answers || begins(answer.wanted, tokenizer.decode(ids));
    };
    const Generation reply = generator.generate(
        question.prompt, {.max_tokens = reply_limit(question), .end_ids = config.end_ids},
        can_match);
    answer.got = stripped(tokenizer.decode(reply.ids));
    ++generated;
    matched += answer.exact() ? 1 : 0;
    if (!on_answer(answer)) break;
  }
  return static_cast<double>(matched) / static_cast<double>(generated);
}

}  // namespace clora
