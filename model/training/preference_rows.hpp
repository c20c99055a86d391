// PreferenceRows: the records of a preference run (model/data/preference_packing.hpp) with the
// log-probabilities of their answers by the reference model, which are computed once.
// Threads: as Records. Must not outlive the records.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clora/model/training/preference_loss.hpp"
#include "model/data/preference_packing.hpp"

namespace clora {

class PreferenceRows {
 public:
  // batch_size: records that exchange their answers for the KL term of KTO, in the order of their
  // files. max_length: of documents; 0: unknown. shares_prompts: as in AnswerPacking. Errors:
  // invalid_data if the records are not of the form that the loss needs, or if one has no answer.
  PreferenceRows(const Records& records, const PreferenceLoss& loss, std::int64_t batch_size,
                 std::int64_t max_length, bool shares_prompts);

  const Records& records() const noexcept { return *records_; }
  PackedRows pack(std::span<const std::size_t> indices) const;
  WantedRows sizes_of(const RecordView& record) const;
  // As in pack_answers(); 0 until they are computed.
  std::vector<float>& reference() noexcept { return reference_; }

 private:
  const Records* records_;
  AnswerPacking how_;
  std::vector<float> reference_;
};

}  // namespace clora
