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

std::int64_t RecordedRows::parts_of(RowsOf of) {
  return of == RowsOf::documents ? kBegin : of == RowsOf::texts ? kReference : kParts;
}

RecordedRows::RecordedRows(Context& context, std::int64_t rows, std::int64_t labelled, RowsOf of)
    : rows_(rows), labelled_(labelled), of_(of), parts_(parts_of(of)) {
  require(labelled >= 1 && labelled <= rows,
          "recorded rows: 1 to {} of {} rows can be labelled, got {}", rows, rows, labelled);
  const auto step = static_cast<std::int64_t>(context.device().base_alignment_bytes / 4);
  stride_ = round_up(std::max(rows, kSettingsCount), step);
  buffer_ = context.allocate({parts_ * stride_}, DType::i32, MemoryTag::activations);
}

Tensor RecordedRows::part(Part part, std::int64_t elements, DType type) const {
  return buffer_.slice(static_cast<std::size_t>(part * stride_) * 4, {elements}, type);
}

Fence RecordedRows::upload(Context& context, const PackedRows& packed, const Scalars& scalars,
                           std::vector<std::int32_t>& staging) const {
  staging.resize(staging_words());
  return upload(context, packed, scalars, std::span(staging));
}

Fence RecordedRows::upload(Context& context, const PackedRows& packed, const Scalars& scalars,
                           std::span<std::int32_t> staging) const {
  require(packed.rows() == static_cast<std::size_t>(rows_),
          "recorded rows: {} rows are required, got {}", rows_, packed.rows());
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
