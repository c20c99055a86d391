// RecordedRows: the per-row inputs of a recorded step on the device, filled by one upload.
//
// Of T rows, at most C are labelled (enter the loss); only these go through the head and the loss.
// One buffer holds the following parts, each at an offset where a kernel argument may begin:
//   ids, positions, first, last [T] i32    as packed
//   labelled [C] i32                       the labelled rows, in order; -1 after the last
//   targets [C] i32                        the target of each of them; -1 after the last
//   place [T] i32                          the row's index among the labelled ones, or -1
//   weight [C] f32                         weight of the loss of each of them; of texts and answers
//                                          one for all [1]
//   seed_and_step [2] u32                  for dropout
//   settings [8] f32                       UpdateSettings of the update that follows
//   balance [2] f32                        weight of the loss that balances the load of experts,
//                                          and the number of rows that are no padding
//   noise [T] f32                          largest noise of the row's embedding; 0 in padding
// and, of texts that become vectors (model/data/text_packing.hpp), one for each labelled row:
//   begin, end [C] i32                     each text's rows; an empty range after the last
//   text [T] i32                           the number of the row's text, or -1
// or, of answers that are compared (model/data/preference_packing.hpp):
//   begin, end [C] i32                     each answer's labelled rows, as indices among them
//   answer [C] i32                         the number of a labelled row's answer, or -1
//   reference [C] f32, label [C] i32       of each answer
//   answer_weights [2] f32                 weight of an answer or pair, and of a row of the loss of
//                                          the next token beside it
// If the documents of these have rows in common (PackedRows::attends), attention has A rows of its
// own, and first and last are [A] i32:
//   source [A] i32                         the row that each is, or -1
//   own [A] i32                            the same, but -1 where an earlier one is the same row
//   at, again [T] i32                      the first and the second of them that is the row, or -1
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clora/model/data/packing.hpp"
#include "clora/ops/optimizers/parameter_update.hpp"
#include "clora/ops/rowwise/segment_mean.hpp"
#include "clora/runtime/context.hpp"

namespace clora {

enum class RowsOf { documents, texts, answers };

// Tensors as above, or empty.
struct SharedRows {
  Tensor source, own, at, again;
  bool empty() const { return source.empty(); }
};

class RecordedRows {
 public:
  // attending: the rows of attention, if they are others; else 0. REQUIRES: 1 <= labelled <= rows;
  // only answers have rows of attention.
  RecordedRows(Context& context, std::int64_t rows, std::int64_t labelled,
               RowsOf of = RowsOf::documents, std::int64_t attending = 0);

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t labelled_rows() const noexcept { return labelled_; }
  std::int64_t attending_rows() const noexcept { return attending_; }  // 0: they are no others
  SharedRows shared() const;
  Tensor ids() const { return part(kIds, rows_, DType::i32); }
  Tensor positions() const { return part(kPositions, rows_, DType::i32); }
  Tensor first() const { return part(kFirst, attention_rows(), DType::i32); }
  Tensor last() const { return part(kLast, attention_rows(), DType::i32); }
  Tensor labelled() const { return part(kLabelled, labelled_, DType::i32); }
  Tensor targets() const { return part(kTargets, labelled_, DType::i32); }
  Tensor place() const { return part(kPlace, rows_, DType::i32); }
  // REQUIRES: of texts or of answers.
  Tensor weight() const { return part(kWeight, 1, DType::f32); }
  // REQUIRES: of documents.
  Tensor weights() const { return part(kWeight, labelled_, DType::f32); }
  Tensor noise() const { return part(kNoise, rows_, DType::f32); }
  Tensor seed_and_step() const { return part(kSeedAndStep, 2, DType::u32); }
  Tensor settings() const { return part(kSettings, kSettingsCount, DType::f32); }
  Tensor balance() const { return part(kBalance, 2, DType::f32); }
  // REQUIRES: of texts or of answers.
  Segments texts() const {
    return {part(kBegin, labelled_, DType::i32), part(kEnd, labelled_, DType::i32)};
  }
  Tensor text() const { return part(kText, rows_, DType::i32); }
  // REQUIRES: of answers.
  Tensor answer() const { return part(kText, labelled_, DType::i32); }
  Tensor reference() const { return part(kReference, labelled_, DType::f32); }
  Tensor label() const { return part(kLabel, labelled_, DType::i32); }
  Tensor answer_weights() const { return part(kAnswerWeights, 2, DType::f32); }

  // Enqueues the upload. It fills `staging` with the data to send, which must stay unchanged until
  // the fence has passed. REQUIRES: packed has rows() rows, of which at most labelled_rows() have a
  // target; a span of staging has staging_words() elements.
  struct Scalars {
    double weight = 1;  // of documents, multiplied by that of each row (PackedRows::weights)
    std::uint32_t seed = 0;
    std::uint32_t step = 0;
    UpdateSettings settings = {};
    float balance_weight = 0;
    float answer_weight = 0, nll_weight = 0;
    std::int64_t rows = 0;  // without padding; below 2^24
    float noise = 0;        // of a document of one token; divided by the root of its tokens
  };
  Fence upload(Context& context, const PackedRows& packed, const Scalars& scalars,
               std::span<std::int32_t> staging) const;
  Fence upload(Context& context, const PackedRows& packed, const Scalars& scalars,
               std::vector<std::int32_t>& staging) const;
  std::size_t staging_words() const { return static_cast<std::size_t>(parts_ * stride_); }

 private:
  static constexpr std::int64_t kSettingsCount = sizeof(UpdateSettings) / sizeof(float);
  enum Part : std::int64_t {
    kIds,
    kPositions,
    kFirst,
    kLast,
    kLabelled,
    kTargets,
    kPlace,
    kWeight,
    kSeedAndStep,
    kSettings,
    kBalance,
    kNoise,
    kBegin,  // from here on of texts and answers only
    kEnd,
    kText,
    kReference,  // from here on of answers only
    kLabel,
    kAnswerWeights,
    kSource,  // from here on of shared rows only
    kOwn,
    kAt,
    kAgain,
    kParts
  };
  static std::int64_t parts_of(RowsOf of, std::int64_t attending);
  std::int64_t attention_rows() const { return attending_ > 0 ? attending_ : rows_; }
  Tensor part(Part part, std::int64_t elements, DType type) const;
  void write_noise(const PackedRows& packed, const Scalars& scalars,
                   std::span<std::int32_t> noise) const;
  void write_answers(const PackedRows& packed, const Scalars& scalars,
                     std::span<std::int32_t> staging) const;
  void write_shared(const PackedRows& packed, std::span<std::int32_t> staging) const;

  std::int64_t rows_;
  std::int64_t labelled_;
  std::int64_t attending_;
  RowsOf of_;
  std::int64_t parts_;
  std::int64_t stride_;  // elements from one part to the next
  Tensor buffer_;
};

}  // namespace clora
