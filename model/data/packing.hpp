// Packing: concatenates records into a fixed number of rows, so one recorded step serves every
// batch. Each record is a document: its positions restart, and its rows attend to no other
// document. Pure host arithmetic; thread-safe.
//
//   records  a b c   d e            rows = 6
//   ids        a b c d e 0          positions  0 1 2 0 1 0
//   targets    b c - e - -          first      0 0 0 3 3 5     last  0 1 2 3 4 5     (- is -1)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "clora/model/data/record_store.hpp"

namespace clora {

struct PackedRows;

// Of rows with answers that are compared (preference_packing.hpp).
struct PackedAnswers {
  std::vector<float> reference;     // each answer's log-probability by the reference model, or 0
  std::vector<std::int32_t> label;  // 1: the preferred answer of a pair, or a desirable one
  int nll_rows = 0;  // labelled rows of the loss of the next token beside that of the answers
  // The same prompts with the answers of other records, for the KL term of KTO; or null.
  std::shared_ptr<const PackedRows> mismatched = {};
};

struct PackedRows {                   // each [rows]
  std::vector<std::int32_t> ids;      // 0 in padding rows
  std::vector<std::int32_t> targets;  // the id that the row must predict; -1: not labelled
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> first;  // the first row of its document
  std::vector<std::int32_t> last;   // the last one: the row itself
  // Empty, or, if documents begin with the same rows, the rows of attention, in which each document
  // is complete: the row that each is. first and last are then of these. A row is at most twice
  // among them.
  std::vector<std::int32_t> attends = {};
  // The number of the row's text, -1 in padding rows; empty unless texts are packed
  // (text_packing.hpp). Of answers: the answer that the row's target belongs to, or -1.
  std::vector<std::int32_t> text;
  // The weights of the rows' losses, 0 in padding rows; empty: all 1. Only of records' next tokens.
  std::vector<float> weights;
  int target_count = 0;        // terms of the loss: labelled rows, anchors, pairs or answers
  PackedAnswers answers = {};  // empty unless answers are compared

  std::size_t rows() const { return ids.size(); }
  std::size_t attention_rows() const { return first.size(); }
  float weight_of(std::size_t row) const { return weights.empty() ? 1 : weights[row]; }
  double target_weight() const;  // the sum of the weights of the labelled rows
};

// The rows for which a step is requested.
struct WantedRows {
  std::size_t rows = 0;
  std::size_t labelled = 0;   // those with a target
  std::size_t attending = 0;  // rows of attention, if they are others (PackedRows::attends); else 0
  // The average number of rows to which a row may attend, for the cost in profiles; a recorded step
  // keeps the value with which it was recorded. 0: unknown.
  double attended = 0;
};
WantedRows wanted_rows(const PackedRows& packed);

// Appends padding rows up to `rows`; each is a document of one token without a target. attending:
// the same for rows of attention, if there are others; theirs are no rows (-1). REQUIRES: no more
// than `rows` rows already.
void pad_rows(PackedRows& packed, std::size_t rows, std::size_t attending = 0);

// Packs `records` in order into `rows` rows; the remaining rows are padding, each a document of one
// token without a target. REQUIRES: the records have at most `rows` tokens in total; each record is
// not empty and has as many marks as ids.
PackedRows pack_rows(std::span<const RecordView> records, std::size_t rows);
PackedRows pack_rows(std::span<const Record> records, std::size_t rows);

}  // namespace clora
