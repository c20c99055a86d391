// clora.h: the likelihoods of choices.
#include "clora/model/training/choices.hpp"

#include <algorithm>
#include <span>

#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

constexpr std::string_view kWho = "clora_score_choices";

void require_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary) {
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < vocabulary, "{}: ids must be in [0, {}), got {}", kWho, vocabulary, id);
  }
}

// Checks what the arrays point to, but not the ids.
void check(const clora_choices& c) {
  require_given(c.prompt, kWho, "prompt");
  require_given(c.ids, kWho, "ids");
  require_given(c.lengths, kWho, "lengths");
  require(c.prompt_count > 0 && c.choice_count > 0,
          "{}: at least one token of the prompt and one choice are needed, got {} and {}", kWho,
          c.prompt_count, c.choice_count);
  std::size_t left = c.id_count;
  for (const std::size_t length : std::span(c.lengths, c.choice_count)) {  // a sum could overflow
    require(length > 0, "{}: each choice must have at least one token, got an empty one", kWho);
    require(length <= left, "{}: the lengths must sum to the {} ids, got more", kWho, c.id_count);
    left -= length;
  }
  require(left == 0, "{}: the lengths must sum to the {} ids, got {}", kWho, c.id_count,
          c.id_count - left);
}

Record record_of(std::span<const std::int32_t> prompt, std::span<const std::int32_t> choice) {
  Record record;
  record.ids.assign(prompt.begin(), prompt.end());
  record.ids.insert(record.ids.end(), choice.begin(), choice.end());
  record.is_target.resize(prompt.size(), 0);
  record.is_target.resize(record.ids.size(), 1);
  return record;
}

ChoiceQuestion question_of(const clora_choices& c, const clora_session& session) {
  check(c);
  const std::span prompt(c.prompt, c.prompt_count), ids(c.ids, c.id_count);
  const std::int64_t vocabulary = session.model->model->config().vocabulary;
  require_ids(prompt, vocabulary);
  require_ids(ids, vocabulary);
  const auto positions = static_cast<std::size_t>(session.max_positions);
  ChoiceQuestion question;
  std::size_t begin = 0;
  for (const std::size_t length : std::span(c.lengths, c.choice_count)) {
    require(prompt.size() <= positions && length <= positions - prompt.size(),
            "{}: the session has space for {} tokens, got a prompt of {} with a choice of {}", kWho,
            positions, prompt.size(), length);
    question.choices.push_back(record_of(prompt, ids.subspan(begin, length)));
    begin += length;
  }
  return question;
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_score_choices(clora_session* session, const clora_choices* choices,
                                 double* logprobs, size_t* likeliest) {
  return guarded([&] {
    require_given(session, kWho, "session");
    require_given(choices, kWho, "choices");
    require_given(logprobs, kWho, "logprobs");
    const ChoiceQuestion question = question_of(read_struct(choices, kWho), *session);
    const std::vector<double> values = log_likelihoods_of(evaluator_of(*session), question);
    for (const Record& choice : question.choices) {
      session->model->context->forward_tokens += choice.ids.size();
    }
    std::ranges::copy(values, logprobs);
    if (likeliest != nullptr) *likeliest = clora::likeliest(values);
  });
}
