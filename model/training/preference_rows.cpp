#include "model/training/preference_rows.hpp"

#include <algorithm>

#include "runtime/fail.hpp"

namespace clora {
namespace {

std::size_t longest_document(const Records& records) {
  std::size_t longest = 0;
  for (const RecordView record : records.records) {
    const PromptAnswers all = answers_of(record);
    longest =
        std::max(longest, all.prompt.size() + std::max(all.chosen.size(), all.rejected.size()));
  }
  return longest;
}

void require_form(const Records& records, const PreferenceLoss& loss) {
  for (std::size_t i = 0; i < records.records.size(); ++i) {
    const PromptAnswers all = answers_of(records.records[i]);
    const bool has_one = !all.chosen.empty() || !all.rejected.empty();
    if (loss.has_pairs() ? all.is_pair() : has_one && !all.is_pair()) continue;
    fail(ErrorCode::invalid_data, "training: record {} must be {} for the loss {}", i + 1,
         loss.has_pairs() ? "a prompt with a chosen and a rejected answer"
                          : "a prompt with one labelled answer",
         name_of(loss.formula.kind));
  }
}

}  // namespace

PreferenceRows::PreferenceRows(const Records& records, const PreferenceLoss& loss,
                               std::int64_t batch_size, std::int64_t max_length,
                               bool shares_prompts)
    : records_(&records), how_{.labels_prompt = loss.has_nll(), .shares_prompts = shares_prompts} {
  require_form(records, loss);
  if (loss.has_reference()) reference_.resize(2 * records.records.size());
  if (!loss.has_kl()) return;
  how_.exchange = static_cast<std::size_t>(batch_size);
  how_.max_length =
      max_length > 0 ? static_cast<std::size_t>(max_length) : longest_document(records);
}

PackedRows PreferenceRows::pack(std::span<const std::size_t> indices) const {
  return pack_answers(*records_, indices, how_, reference_);
}

WantedRows PreferenceRows::sizes_of(const RecordView& record) const {
  return rows_of_answers(record, how_);
}

}  // namespace clora
