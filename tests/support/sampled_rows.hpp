// Rows of logits with their settings and states, as record_sample() gets them: for tests.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "clora/ops/sample.hpp"
#include "tests/reference/sample_reference.hpp"
#include "tests/support/op_test.hpp"

namespace clora::test {

struct SampledRow {
  std::vector<float> logits;
  SampleSettings settings = {};  // slot and bias_count are set by SampledRows
  reference::SampleRowState state = {};
  bool padding = false;
};

// The tensors of the op for some rows. Row n has slot S - 1 - n, so that a mix-up of rows and slots
// fails a test.
class SampledRows {
 public:
  SampledRows(Context& context, std::vector<SampledRow> rows)
      : context_(context), rows_(std::move(rows)) {
    for (std::size_t n = 0; n < rows_.size(); ++n) {
      SampleSettings& s = rows_[n].settings;
      s.slot = rows_[n].padding ? -1 : static_cast<std::int32_t>(rows_.size() - 1 - n);
      s.bias_count = static_cast<std::int32_t>(rows_[n].state.biases.size());
      s.uses_mask = rows_[n].state.mask.empty() ? 0 : 1;
    }
    tokens_ = upload(context, {count()}, std::vector<std::int32_t>(rows_.size(), -9));
    write_logits();
    write_settings();
    write_state();
  }

  const SampledRow& row(std::size_t n) const { return rows_[n]; }
  const Tensor& tokens_tensor() const { return tokens_; }
  const Tensor& settings_tensor() const { return settings_; }
  const Tensor& logits_tensor() const { return logits_; }
  SampleState& state() { return state_; }
  void set_step(std::uint32_t step) {
    for (SampledRow& row : rows_) row.settings.step = step;
    write_settings();
  }
  void record(Batch& batch) const { record_sample(batch, tokens_, settings_, logits_, state_); }
  std::vector<std::int32_t> tokens() const { return context_.read<std::int32_t>(tokens_); }
  std::vector<std::int32_t> latest() const { return context_.read<std::int32_t>(state_.latest); }
  // Of the row's slot.
  std::vector<std::uint32_t> counts(std::size_t n) const {
    const auto all = context_.read<std::uint32_t>(state_.counts);
    const std::size_t slot = rows_.size() - 1 - n, size = rows_[0].logits.size();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(slot * size);
    return {begin, begin + static_cast<std::ptrdiff_t>(size)};
  }

 private:
  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t vocabulary() const { return static_cast<std::int64_t>(rows_[0].logits.size()); }
  // The row with that slot.
  const SampledRow& row_of(std::size_t slot) const { return rows_[rows_.size() - 1 - slot]; }

  void write_logits() {
    std::vector<float> all;
    for (const SampledRow& row : rows_) {
      all.insert(all.end(), row.logits.begin(), row.logits.end());
    }
    logits_ = upload(context_, {count(), vocabulary()}, all);
  }
  void write_settings() {
    std::vector<SampleSettings> all;
    for (const SampledRow& row : rows_) all.push_back(row.settings);
    if (settings_.empty()) {
      settings_ = context_.allocate({count(), kSampleSettingWords}, DType::u32, MemoryTag::scratch);
    }
    context_.write(settings_, std::as_bytes(std::span(all)));
  }
  void write_state() {
    std::size_t columns = 1;
    for (const SampledRow& row : rows_) columns = std::max(columns, row.state.biases.size());
    const auto words = static_cast<std::size_t>((vocabulary() + 31) / 32);
    std::vector<std::uint32_t> counts, mask;
    std::vector<std::int32_t> ids(rows_.size() * columns, 0);
    std::vector<float> values(rows_.size() * columns,
                              1e9F);  // those beyond bias_count are not used
    for (std::size_t slot = 0; slot < rows_.size(); ++slot) {
      auto own = row_of(slot).state.counts;
      own.resize(rows_[0].logits.size());
      counts.insert(counts.end(), own.begin(), own.end());
      const auto& biases = row_of(slot).state.biases;
      for (std::size_t i = 0; i < biases.size(); ++i) {
        ids[slot * columns + i] = biases[i].first;
        values[slot * columns + i] = biases[i].second;
      }
      auto own_mask = rows_[slot].state.mask;  // by row
      own_mask.resize(words);
      mask.insert(mask.end(), own_mask.begin(), own_mask.end());
    }
    const auto b = static_cast<std::int64_t>(columns);
    state_.counts = context_.upload<std::uint32_t>({count(), vocabulary()}, DType::u32, counts,
                                                   MemoryTag::scratch);
    state_.bias_ids = upload(context_, {count(), b}, ids);
    state_.bias_values = upload(context_, {count(), b}, values);
    state_.mask = context_.upload<std::uint32_t>({count(), static_cast<std::int64_t>(words)},
                                                 DType::u32, mask, MemoryTag::scratch);
    state_.latest = upload(context_, {count()}, std::vector<std::int32_t>(rows_.size(), -7));
  }

  Context& context_;
  std::vector<SampledRow> rows_;
  Tensor tokens_, settings_, logits_;
  SampleState state_;
};

}  // namespace clora::test
