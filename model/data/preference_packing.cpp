#include "model/data/preference_packing.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {
namespace {

using Ids = std::span<const std::int32_t>;

// Appends the rows of a prompt and its answer, whose number is that of PackedRows::text.
void append_document(PackedRows& packed, Ids prompt, Ids answer, std::int32_t number,
                     bool labels_prompt) {
  const auto begin = static_cast<std::int32_t>(packed.rows());
  const std::size_t count = prompt.size() + answer.size();
  const auto id_at = [&](std::size_t i) {
    return i < prompt.size() ? prompt[i] : answer[i - prompt.size()];
  };
  for (std::size_t i = 0; i < count; ++i) {
    const bool has_target = i + 1 < count;
    const bool in_answer = has_target && i + 1 >= prompt.size();
    const bool is_labelled = in_answer || (has_target && labels_prompt);
    packed.ids.push_back(id_at(i));
    packed.targets.push_back(is_labelled ? id_at(i + 1) : -1);
    packed.positions.push_back(static_cast<std::int32_t>(i));
    packed.first.push_back(begin);
    packed.last.push_back(begin + static_cast<std::int32_t>(i));
    packed.text.push_back(in_answer ? number : -1);
  }
}

void append_answer(PackedRows& packed, Ids prompt, Ids answer, bool is_chosen, float reference,
                   const AnswerPacking& how) {
  const bool labels_prompt = how.labels_prompt && is_chosen;
  append_document(packed, prompt, answer, static_cast<std::int32_t>(packed.answers.label.size()),
                  labels_prompt);
  packed.answers.label.push_back(is_chosen ? 1 : 0);
  packed.answers.reference.push_back(reference);
  if (labels_prompt) {
    packed.answers.nll_rows += static_cast<int>(prompt.size() + answer.size() - 1);
  }
}

// The answer of the record before, in a cycle of the records that exchange theirs.
Ids exchanged_answer(const Records& records, std::size_t index, std::size_t exchange) {
  const std::size_t begin = index / exchange * exchange;
  const std::size_t end = std::min(begin + exchange, records.records.size());
  const PromptAnswers other = answers_of(records.records[index == begin ? end - 1 : index - 1]);
  return other.chosen.empty() ? other.rejected : other.chosen;
}

}  // namespace

PromptAnswers answers_of(const RecordView& record) {
  const auto part = [&](std::uint8_t mark) {
    const auto [begin, end] = std::ranges::equal_range(record.is_target, mark);
    return record.ids.subspan(static_cast<std::size_t>(begin - record.is_target.begin()),
                              static_cast<std::size_t>(end - begin));
  };
  return {part(0), part(kChosen), part(kRejected)};
}

PackedRows pack_answers(const Records& records, std::span<const std::size_t> indices,
                        const AnswerPacking& how, std::span<const float> reference) {
  const auto reference_of = [&](std::size_t index, std::size_t answer) {
    return reference.empty() ? 0 : reference[2 * index + answer];
  };
  PackedRows packed, mismatched;
  bool has_pairs = false, has_singles = false;
  for (const std::size_t index : indices) {
    const PromptAnswers all = answers_of(records.records[index]);
    (all.is_pair() ? has_pairs : has_singles) = true;
    require(!(has_pairs && has_singles),
            "pack_answers: record {} has {}, but a record before it not", index + 1,
            all.is_pair() ? "two answers" : "one answer");
    for (const std::uint8_t mark : {kChosen, kRejected}) {
      const Ids answer = mark == kChosen ? all.chosen : all.rejected;
      if (answer.empty()) continue;
      append_answer(packed, all.prompt, answer, mark == kChosen,
                    reference_of(index, all.is_pair() ? mark - kChosen : 0), how);
    }
    ++packed.target_count;
    if (how.exchange == 0) continue;
    Ids answer = exchanged_answer(records, index, how.exchange);
    if (how.max_length > 0) {
      answer = answer.first(std::min(answer.size(), how.max_length - all.prompt.size()));
    }
    append_answer(mismatched, all.prompt, answer, true, reference_of(index, 1), {});
  }
  if (how.exchange > 0) {
    packed.answers.mismatched = std::make_shared<const PackedRows>(std::move(mismatched));
  }
  return packed;
}

WantedRows rows_of_answers(const RecordView& record, const AnswerPacking& how) {
  const PromptAnswers all = answers_of(record);
  WantedRows wanted;
  for (const Ids answer : {all.chosen, all.rejected}) {
    if (answer.empty()) continue;
    const bool labels_prompt = how.labels_prompt && answer.data() == all.chosen.data();
    wanted.rows += all.prompt.size() + answer.size();
    wanted.labelled += labels_prompt ? all.prompt.size() + answer.size() - 1
                                     : answer.size() - (all.prompt.empty() ? 1 : 0);
  }
  return wanted;
}

}  // namespace clora
