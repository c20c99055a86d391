// Packing of prompts with answers that are compared. A record is a prompt and one or two answers:
// the tokens of the prompt, marked 0, of the preferred or desirable answer, marked kChosen, and of
// the rejected or undesirable one, marked kRejected. Each answer becomes a document of its own,
// after the prompt. Pure host arithmetic; thread-safe.
//
//   record   a b | c d | e            (chosen c d, rejected e)
//   ids      a b c d a b e            positions  0 1 2 3 0 1 2
//   targets  - c d - - e -            text       - 0 0 - - 1 -     first  0 0 0 0 4 4 4
//
// The documents of a pair may have the rows of the prompt in common, but for its last row, which
// predicts the first token of two answers:
//   ids      a b c d b e              positions  0 1 2 3 1 2
//   targets  - c d - e -              text       - 0 0 - 1 -
//   attends  0 1 2 3 0 4 5            first      0 0 0 0 4 4 4
#pragma once

#include <cstdint>
#include <span>

#include "clora/model/data/packing.hpp"
#include "clora/model/data/records.hpp"

namespace clora {

inline constexpr std::uint8_t kChosen = 1, kRejected = 2;  // marks of a record's answers

struct PromptAnswers {
  std::span<const std::int32_t> prompt, chosen, rejected;  // one of the answers may be empty

  bool is_pair() const { return !chosen.empty() && !rejected.empty(); }
};
PromptAnswers answers_of(const RecordView& record);

struct AnswerPacking {
  bool labels_prompt = false;  // the prompt before a preferred answer is labelled, too (ORPO)
  // Records [k n, (k + 1) n) exchange their answers in a cycle, for PackedAnswers::mismatched; 0:
  // not wanted.
  std::size_t exchange = 0;
  std::size_t max_length = 0;  // at which documents with exchanged answers are cut; 0: nowhere
  // The documents of a pair have the rows of the prompt in common, unless these are so few that
  // gathering the rows of attention would take longer than computing them twice.
  bool shares_prompts = false;
};

// Packs the documents of the chosen records. reference: of every record two log-probabilities: of a
// pair those of its answers, else of its answer and of the exchanged one; empty: 0. target_count is
// the number of pairs, or of single answers. REQUIRES: pairs only, or single answers only.
PackedRows pack_answers(const Records& records, std::span<const std::size_t> indices,
                        const AnswerPacking& how, std::span<const float> reference = {});

// The rows of a record's documents, also those of attention (never 0 here), and how many of them
// are labelled.
WantedRows rows_of_answers(const RecordView& record, const AnswerPacking& how);

}  // namespace clora
