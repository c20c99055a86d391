#include "clora/model/training/choices.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "clora/model/data/packing.hpp"
#include "clora/runtime/files/json.hpp"
#include "model/data/record_reader.hpp"
#include "model/data/record_texts.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kLimits{.bytes = std::size_t{16} << 20U};
constexpr std::size_t kMostChoices = 1000;

struct Place {  // of a record, for messages
  std::string file;
  std::size_t line;

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::invalid_data, "{}: line {}: {}", file, line,
         fmt::format(format, std::forward<Args>(args)...));
  }
};

Json object_of(const std::string& text, const Place& place) {
  try {
    Json object = parse_json<Json>(text, place.file, kLimits, place.line);
    if (object.is_object() && object.contains("prompt") && object.contains("choices") &&
        object.contains("answer")) {
      return object;
    }
  } catch (const Error& error) {
    place.bad("{}", error.what());
  }
  place.bad("a record with choices needs \"prompt\", \"choices\" and \"answer\"");
}

std::vector<std::string> choices_of(const Json& object, const Place& place) {
  const Json& list = object.at("choices");
  if (!list.is_array() || list.size() < 2 || list.size() > kMostChoices) {
    place.bad("\"choices\" must be a list of 2 to {} texts, got {}", kMostChoices,
              json_excerpt(list));
  }
  std::vector<std::string> choices;
  for (const Json& choice : list) {
    if (!choice.is_string()) place.bad("a choice must be a text, got {}", json_excerpt(choice));
    choices.push_back(choice.get<std::string>());
  }
  return choices;
}

std::size_t answer_of(const Json& object, const std::vector<std::string>& choices,
                      const Place& place) {
  const Json& answer = object.at("answer");
  if (answer.is_string()) {
    const auto found = std::ranges::find(choices, answer.get<std::string>());
    if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  } else if (const auto index = json_integer(answer);
             index && *index >= 0 && *index < std::ssize(choices)) {
    return static_cast<std::size_t>(*index);
  }
  place.bad("\"answer\" must be one of the choices, or its index from 0 to {}, got {}",
            choices.size() - 1, json_excerpt(answer));
}

std::int64_t characters_of(std::string_view choice) {
  const std::size_t begin = std::min(choice.find_first_not_of(" \t\r\n\v\f"), choice.size());
  return std::ranges::count_if(choice.substr(begin),
                               [](char c) { return (static_cast<unsigned char>(c) >> 6U) != 2U; });
}

// The record of the prompt with the choice as its completion.
Record record_of(Json object, const std::string& choice, const RecordReader& reader,
                 const RecordOptions& options, const Place& place) {
  object.erase("choices");
  object.erase("answer");
  if (object.at("prompt").is_array()) {
    object["completion"] = Json::array({{{"role", "assistant"}, {"content", choice}}});
  } else {
    object["completion"] = choice;
  }
  Record record = reader.read(json_text(object), place.file, place.line).record;
  if (record.ids.size() > options.max_seq_length) {
    place.bad(
        "the prompt with a choice has {} tokens, but at most {} are read; shorten it, or raise "
        "`max_seq_length`",
        record.ids.size(), options.max_seq_length);
  }
  return record;
}

ChoiceQuestion question_of(const std::string& text, const RecordReader& reader,
                           const RecordOptions& options, const Place& place) {
  const Json object = object_of(text, place);
  if (object.at("prompt") == "") place.bad("the prompt is empty");
  const std::vector<std::string> choices = choices_of(object, place);
  ChoiceQuestion question{.answer = answer_of(object, choices, place)};
  for (const std::string& choice : choices) {
    question.choices.push_back(record_of(object, choice, reader, options, place));
    question.lengths.push_back(characters_of(choice));
    if (question.lengths.back() == 0) place.bad("a choice is empty");
  }
  return question;
}

double share(std::size_t part, std::size_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::vector<ChoiceQuestion> read_choice_questions(const std::filesystem::path& path,
                                                  const Tokenizer& tokenizer,
                                                  const ChatTemplate* chat_template,
                                                  RecordOptions options) {
  options.append_eos = false;
  options.preference.reset();  // choices are completions, whatever the other records are
  const RecordReader reader(tokenizer, chat_template, options);
  RecordTexts texts(path, kLimits.bytes);
  std::vector<ChoiceQuestion> questions;
  std::string text;
  while ((options.limit == 0 || questions.size() < options.limit) && texts.next(text)) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    questions.push_back(question_of(text, reader, options, {path.string(), texts.number()}));
  }
  if (questions.empty()) {
    fail(ErrorCode::invalid_data, "{}: the file has no records with choices", path.string());
  }
  return questions;
}

std::size_t likeliest(const std::vector<double>& log_likelihoods) {
  const auto most = std::ranges::max_element(log_likelihoods);
  return static_cast<std::size_t>(most - log_likelihoods.begin());
}

std::size_t likeliest_per_character(const std::vector<double>& log_likelihoods,
                                    const std::vector<std::int64_t>& lengths) {
  std::vector<double> each = log_likelihoods;
  for (std::size_t i = 0; i < each.size(); ++i) each[i] /= static_cast<double>(lengths[i]);
  return likeliest(each);
}

std::vector<double> log_likelihoods_of(Evaluator& evaluator, const ChoiceQuestion& question) {
  std::vector<double> values;
  for (const Record& choice : question.choices) {
    const double loss = evaluator.loss_sum(pack_rows(std::span(&choice, 1), choice.ids.size()));
    if (!std::isfinite(loss)) {
      fail(ErrorCode::diverged, "choices: a log-likelihood must be finite, got {}", -loss);
    }
    values.push_back(-loss);
  }
  return values;
}

std::optional<ChoiceScores> score_choices(Evaluator& evaluator,
                                          const std::vector<ChoiceQuestion>& questions,
                                          const std::function<bool(std::size_t)>& on_question) {
  require(!questions.empty(), "choices: at least one question is needed, got none");
  std::size_t right = 0, right_per_character = 0, done = 0;
  for (const ChoiceQuestion& question : questions) {
    const std::vector<double> values = log_likelihoods_of(evaluator, question);
    right += likeliest(values) == question.answer ? 1 : 0;
    right_per_character +=
        likeliest_per_character(values, question.lengths) == question.answer ? 1 : 0;
    if (!on_question(++done)) return std::nullopt;
  }
  return ChoiceScores{share(right, questions.size()), share(right_per_character, questions.size()),
                      questions.size()};
}

}  // namespace clora
