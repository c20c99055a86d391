#include "model/data/preference_packing.hpp"

#include <algorithm>
#include <array>

#include "runtime/fail.hpp"

namespace clora {
namespace {

using Ids = std::span<const std::int32_t>;

// An estimate: gathering a row for attention takes a sixteenth of the time of computing it.
constexpr std::size_t kRowsGatheredForOne = 16;

// How many rows of its prompt the documents of a record have in common.
std::size_t shared_rows(const PromptAnswers& all, const AnswerPacking& how) {
  if (!how.shares_prompts || !all.is_pair() || all.prompt.empty()) return 0;
  const std::size_t shared = all.prompt.size() - 1;
  const std::size_t attending = 2 * all.prompt.size() + all.chosen.size() + all.rejected.size();
  return kRowsGatheredForOne * shared >= attending ? shared : 0;
}

struct Document {
  Ids prompt, answer;
  std::int32_t number = 0;  // of PackedRows::text
  bool labels_prompt = false;
  std::size_t begin = 0;   // the row of the prompt's first token
  std::size_t shared = 0;  // rows from there that an earlier document has appended
};

// Appends the rows of a prompt and its answer.
void append_document(PackedRows& packed, const Document& of) {
  const auto begin = static_cast<std::int32_t>(packed.attention_rows());
  const std::size_t count = of.prompt.size() + of.answer.size();
  const auto id_at = [&](std::size_t i) {
    return i < of.prompt.size() ? of.prompt[i] : of.answer[i - of.prompt.size()];
  };
  for (std::size_t i = 0; i < count; ++i) {
    packed.first.push_back(begin);
    packed.last.push_back(begin + static_cast<std::int32_t>(i));
    packed.attends.push_back(
        static_cast<std::int32_t>(i < of.shared ? of.begin + i : packed.rows()));
    if (i < of.shared) continue;
    const bool has_target = i + 1 < count;
    const bool in_answer = has_target && i + 1 >= of.prompt.size();
    const bool is_labelled = in_answer || (has_target && of.labels_prompt);
    packed.ids.push_back(id_at(i));
    packed.targets.push_back(is_labelled ? id_at(i + 1) : -1);
    packed.positions.push_back(static_cast<std::int32_t>(i));
    packed.text.push_back(in_answer ? of.number : -1);
  }
}

void append_answer(PackedRows& packed, Document of, bool is_chosen, float reference,
                   const AnswerPacking& how) {
  of.labels_prompt = how.labels_prompt && is_chosen;
  of.number = static_cast<std::int32_t>(packed.answers.label.size());
  append_document(packed, of);
  packed.answers.label.push_back(is_chosen ? 1 : 0);
  packed.answers.reference.push_back(reference);
  if (of.labels_prompt) {
    packed.answers.nll_rows += static_cast<int>(of.prompt.size() + of.answer.size() - 1);
  }
}

void append_answers(PackedRows& packed, const PromptAnswers& all,
                    std::span<const float, 2> reference, const AnswerPacking& how) {
  const std::size_t begin = packed.rows(), shared = shared_rows(all, how);
  const float* of_answer = reference.data();
  if (!all.chosen.empty()) {
    append_answer(packed, {.prompt = all.prompt, .answer = all.chosen}, true, *of_answer++, how);
  }
  if (all.rejected.empty()) return;
  append_answer(packed,
                {.prompt = all.prompt, .answer = all.rejected, .begin = begin, .shared = shared},
                false, *of_answer, how);
}

// Rows that no documents have in common are those of attention.
void drop_attends_without_need(PackedRows& packed) {
  if (packed.attends.size() == packed.rows()) packed.attends.clear();
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
  const auto reference_of = [&](std::size_t index) {
    return reference.empty() ? std::array{0.0F, 0.0F}
                             : std::array{reference[2 * index], reference[2 * index + 1]};
  };
  PackedRows packed, mismatched;
  bool has_pairs = false, has_singles = false;
  for (const std::size_t index : indices) {
    const PromptAnswers all = answers_of(records.records[index]);
    (all.is_pair() ? has_pairs : has_singles) = true;
    require(!(has_pairs && has_singles),
            "pack_answers: record {} has {}, but a record before it not", index + 1,
            all.is_pair() ? "two answers" : "one answer");
    append_answers(packed, all, reference_of(index), how);
    ++packed.target_count;
    if (how.exchange == 0) continue;
    Ids answer = exchanged_answer(records, index, how.exchange);
    if (how.max_length > 0) {
      answer = answer.first(std::min(answer.size(), how.max_length - all.prompt.size()));
    }
    append_answer(mismatched, {.prompt = all.prompt, .answer = answer}, true,
                  reference_of(index)[1], {});
  }
  drop_attends_without_need(packed);
  drop_attends_without_need(mismatched);
  if (how.exchange > 0) {
    packed.answers.mismatched = std::make_shared<const PackedRows>(std::move(mismatched));
  }
  return packed;
}

WantedRows rows_of_answers(const RecordView& record, const AnswerPacking& how) {
  const PromptAnswers all = answers_of(record);
  const std::size_t shared = shared_rows(all, how);
  WantedRows wanted;
  for (const Ids answer : {all.chosen, all.rejected}) {
    if (answer.empty()) continue;
    const bool labels_prompt = how.labels_prompt && answer.data() == all.chosen.data();
    wanted.rows += all.prompt.size() + answer.size();
    wanted.labelled += labels_prompt ? all.prompt.size() + answer.size() - 1
                                     : answer.size() - (all.prompt.empty() ? 1 : 0);
  }
  wanted.attending = wanted.rows;
  wanted.rows -= shared;
  return wanted;
}

}  // namespace clora
