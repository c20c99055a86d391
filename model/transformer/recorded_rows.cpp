#include "clora/model/transformer/recorded_rows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// The ranges of rows of each text, and the text of each row. They are 0 before.
void write_texts(const PackedRows& packed, std::span<std::int32_t> begin,
                 std::span<std::int32_t> end, std::span<std::int32_t> text) {
  require(packed.text.size() == packed.rows(),
          "recorded rows: the text of each of the {} rows is required, got {}", packed.rows(),
          packed.text.size());
  std::ranges::copy(packed.text, text.begin());
  for (std::size_t row = 0; row < packed.rows(); ++row) {
    if (packed.text[row] < 0) continue;
    const auto number = static_cast<std::size_t>(packed.text[row]);
    require(number < end.size(), "recorded rows: at most {} texts are possible", end.size());
    if (end[number] == 0) begin[number] = static_cast<std::int32_t>(row);
    end[number] = static_cast<std::int32_t>(row) + 1;
  }
}

// Of the labelled rows: the ranges of each answer, and the answer of each row. They are 0 before.
void write_answer_rows(const PackedRows& packed, std::span<std::int32_t> begin,
                       std::span<std::int32_t> end, std::span<std::int32_t> answer) {
  require(packed.text.size() == packed.rows(),
          "recorded rows: the answer of each of the {} rows is required, got {}", packed.rows(),
          packed.text.size());
  std::ranges::fill(answer, -1);
  std::int32_t count = 0;
  for (std::size_t row = 0; row < packed.rows(); ++row) {
    if (packed.targets[row] < 0) continue;
    const std::int32_t index = count++, number = packed.text[row];
    answer[static_cast<std::size_t>(index)] = number;
    if (number < 0) continue;
    const auto a = static_cast<std::size_t>(number);
    require(a < end.size(), "recorded rows: at most {} answers are possible", end.size());
    if (end[a] == 0) begin[a] = index;
    end[a] = index + 1;
  }
}

}  // namespace

std::int64_t RecordedRows::parts_of(RowsOf of, std::int64_t attending) {
  if (of == RowsOf::documents) return kBegin;
  if (of == RowsOf::texts) return kReference;
  return attending > 0 ? kParts : kSource;
}

RecordedRows::RecordedRows(Context& context, std::int64_t rows, std::int64_t labelled, RowsOf of,
                           std::int64_t attending)
    : rows_(rows),
      labelled_(labelled),
      attending_(attending),
      of_(of),
      parts_(parts_of(of, attending)) {
  require(attending == 0 || of == RowsOf::answers,
          "recorded rows: only answers have rows of attention, got {}", attending);
  require(labelled >= 1 && labelled <= rows,
          "recorded rows: 1 to {} of {} rows can be labelled, got {}", rows, rows, labelled);
  const auto step = static_cast<std::int64_t>(context.device().base_alignment_bytes / 4);
  stride_ = round_up(std::max({rows, attending, kSettingsCount}), step);
  buffer_ = context.allocate({parts_ * stride_}, DType::i32, MemoryTag::activations);
}

Tensor RecordedRows::part(Part part, std::int64_t elements, DType type) const {
  return buffer_.slice(static_cast<std::size_t>(part * stride_) * 4, {elements}, type);
}

SharedRows RecordedRows::shared() const {
  if (attending_ == 0) return {};
  return {part(kSource, attending_, DType::i32), part(kOwn, attending_, DType::i32),
          part(kAt, rows_, DType::i32), part(kAgain, rows_, DType::i32)};
}

Fence RecordedRows::upload(Context& context, const PackedRows& packed, const Scalars& scalars,
                           std::vector<std::int32_t>& staging) const {
  staging.resize(staging_words());
  return upload(context, packed, scalars, std::span(staging));
}

Fence RecordedRows::upload(Context& context, const PackedRows& packed, const Scalars& scalars,
                           std::span<std::int32_t> staging) const {
  require(packed.rows() == static_cast<std::size_t>(rows_) &&
              packed.attends.size() == static_cast<std::size_t>(attending_),
          "recorded rows: {} rows and {} of attention are required, got {} and {}", rows_,
          attending_, packed.rows(), packed.attends.size());
  std::ranges::fill(staging, 0);
  const auto at = [&](Part part) { return staging.begin() + part * stride_; };
  std::ranges::copy(packed.ids, at(kIds));
  std::ranges::copy(packed.positions, at(kPositions));
  std::ranges::copy(packed.first, at(kFirst));
  std::ranges::copy(packed.last, at(kLast));
  std::fill_n(at(kLabelled), 3 * stride_, -1);  // also targets and place, which follow
  std::int32_t count = 0;
  for (std::int32_t row = 0; row < static_cast<std::int32_t>(rows_); ++row) {
    const std::int32_t target = packed.targets[static_cast<std::size_t>(row)];
    if (target < 0) continue;
    require(count < labelled_, "recorded rows: at most {} rows may be labelled", labelled_);
    *(at(kLabelled) + count) = row;
    *(at(kTargets) + count) = target;
    if (of_ == RowsOf::documents) {
      const double of_row = double{packed.weight_of(static_cast<std::size_t>(row))};
      const auto weight = static_cast<float>(scalars.weight * of_row);
      *(at(kWeight) + count) = std::bit_cast<std::int32_t>(weight);
    }
    *(at(kPlace) + row) = count++;
  }
  if (of_ != RowsOf::documents) {
    *at(kWeight) = std::bit_cast<std::int32_t>(static_cast<float>(scalars.weight));
  }
  *at(kSeedAndStep) = std::bit_cast<std::int32_t>(scalars.seed);
  *(at(kSeedAndStep) + 1) = std::bit_cast<std::int32_t>(scalars.step);
  *at(kBalance) = std::bit_cast<std::int32_t>(scalars.balance_weight);
  *(at(kBalance) + 1) = std::bit_cast<std::int32_t>(static_cast<float>(scalars.rows));
  std::memcpy(&*at(kSettings), &scalars.settings, sizeof(UpdateSettings));
  if (scalars.noise > 0) {
    write_noise(packed, scalars,
                staging.subspan(static_cast<std::size_t>(kNoise * stride_),
                                static_cast<std::size_t>(scalars.rows)));
  }
  if (of_ == RowsOf::answers) write_answers(packed, scalars, staging);
  if (attending_ > 0) write_shared(packed, staging);
  if (of_ == RowsOf::texts) {
    const auto span_of = [&](Part part, std::int64_t size) {
      return staging.subspan(static_cast<std::size_t>(part * stride_),
                             static_cast<std::size_t>(size));
    };
    write_texts(packed, span_of(kBegin, labelled_), span_of(kEnd, labelled_),
                span_of(kText, rows_));
  }
  return context.write_async(buffer_, std::as_bytes(staging));
}

void RecordedRows::write_shared(const PackedRows& packed, std::span<std::int32_t> staging) const {
  const auto at_part = [&](Part part) { return staging.begin() + part * stride_; };
  const auto own = at_part(kOwn), at = at_part(kAt), again = at_part(kAgain);
  std::ranges::copy(packed.attends, at_part(kSource));
  std::fill_n(own, 3 * stride_, -1);  // also at and again, which follow
  for (std::int32_t a = 0; a < static_cast<std::int32_t>(attending_); ++a) {
    const std::int32_t row = packed.attends[static_cast<std::size_t>(a)];
    if (row < 0) continue;
    require(row < rows_ && again[row] < 0,
            "recorded rows: row {} of {} is more than twice among those of attention", row, rows_);
    if (at[row] < 0) {
      at[row] = a;
      own[a] = row;
    } else {
      again[row] = a;
    }
  }
}

void RecordedRows::write_noise(const PackedRows& packed, const Scalars& scalars,
                               std::span<std::int32_t> noise) const {
  for (std::size_t begin = 0, end = 0; begin < noise.size(); begin = end) {
    while (end < noise.size() && packed.first[end] == packed.first[begin]) ++end;
    const float of_row = scalars.noise / std::sqrt(static_cast<float>(end - begin));
    std::fill_n(noise.begin() + static_cast<std::ptrdiff_t>(begin), end - begin,
                std::bit_cast<std::int32_t>(of_row));
  }
}

void RecordedRows::write_answers(const PackedRows& packed, const Scalars& scalars,
                                 std::span<std::int32_t> staging) const {
  const auto span_of = [&](Part part) {
    return staging.subspan(static_cast<std::size_t>(part * stride_),
                           static_cast<std::size_t>(labelled_));
  };
  write_answer_rows(packed, span_of(kBegin), span_of(kEnd), span_of(kText));
  const auto& [reference, label, nll_rows, mismatched] = packed.answers;
  require(reference.size() == label.size() && label.size() <= span_of(kLabel).size(),
          "recorded rows: a reference and a label of each of at most {} answers are required, got "
          "{} and {}",
          labelled_, reference.size(), label.size());
  std::ranges::transform(reference, span_of(kReference).begin(),
                         [](float value) { return std::bit_cast<std::int32_t>(value); });
  std::ranges::copy(label, span_of(kLabel).begin());
  const auto weights = staging.begin() + kAnswerWeights * stride_;
  weights[0] = std::bit_cast<std::int32_t>(scalars.answer_weight);
  weights[1] = std::bit_cast<std::int32_t>(scalars.nll_weight);
}

}  // namespace clora
