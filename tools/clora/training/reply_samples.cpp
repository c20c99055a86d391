#include "tools/clora/training/reply_samples.hpp"

#include <algorithm>

namespace clora {
namespace {

constexpr std::int64_t kMaxReply = 256;

std::int64_t tokens_of_reply(const Question& question) {
  return std::min(reply_limit(question), kMaxReply);
}

std::vector<Question> first_questions(const Records& held_out, std::int64_t count) {
  std::vector<Question> questions = questions_of(held_out);
  questions.resize(std::min(questions.size(), static_cast<std::size_t>(count)));
  return questions;
}

std::int64_t positions_of(const std::vector<Question>& questions) {
  std::int64_t positions = 0;
  for (const Question& question : questions) {
    positions = std::max(positions, std::ssize(question.prompt) + tokens_of_reply(question) + 1);
  }
  return positions;
}

}  // namespace

std::int64_t sample_positions(const Records& held_out, std::int64_t count) {
  return positions_of(first_questions(held_out, count));
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

ReplySamples::ReplySamples(LanguageModel& model, const Adapter& adapter, const Tokenizer& tokenizer,
                           const Records& held_out, std::vector<std::int32_t> end_ids,
                           std::int64_t count)
    : model_(model),
      adapter_(adapter),
      tokenizer_(tokenizer),
      questions_(first_questions(held_out, count)),
      end_ids_(std::move(end_ids)) {}

std::optional<std::vector<std::string>> ReplySamples::replies_of(
    const Adapter* adapter, const std::function<bool()>& should_stop) {
  Generator generator(model_, adapter, positions_of(questions_));
  std::vector<std::string> replies;
  for (const Question& question : questions_) {
    const Generation reply = generator.generate(
        question.prompt, {.max_tokens = tokens_of_reply(question), .end_ids = end_ids_},
        [&](std::int32_t) { return !should_stop(); });
    if (should_stop()) return std::nullopt;
    replies.push_back(shortened(tokenizer_.decode(reply.ids), kMaxSampleBytes));
  }
  return replies;
}

std::vector<ReplySample> ReplySamples::replies(const std::function<bool()>& should_stop) {
  if (base_.empty()) base_ = replies_of(nullptr, should_stop).value_or(base_);
  if (base_.empty()) return {};
  const auto of_adapter = replies_of(&adapter_, should_stop);
  if (!of_adapter) return {};
  std::vector<ReplySample> samples;
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    samples.push_back({shortened(prompt_text(questions_[i], tokenizer_), kMaxSampleBytes),
                       shortened(tokenizer_.decode(questions_[i].answer), kMaxSampleBytes),
                       base_[i], (*of_adapter)[i]});
  }
  return samples;
}

nlohmann::ordered_json samples_event(std::int64_t step, const std::vector<ReplySample>& samples) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ReplySample& one : samples) {
    list.push_back({{"prompt", one.prompt},
                    {"wanted", one.wanted},
                    {"base", one.base},
                    {"adapter", one.adapter}});
  }
  return {{"event", "samples"}, {"step", step}, {"samples", std::move(list)}};
}

}  // namespace clora
