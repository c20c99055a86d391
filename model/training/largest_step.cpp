// largest_step() of training_run.hpp.
#include "clora/model/training/training_run.hpp"
#include "model/training/largest_rows.hpp"
#include "model/training/preference_run.hpp"

namespace clora {

WantedRows largest_step(const ModelConfig& model, const Records& train,
                        const TrainingRunConfig& config, std::int64_t begin,
                        const std::function<bool()>& should_stop) {
  DataOrder order = order_of(config, train.data_shares());
  const std::int64_t end = total_steps(config, train.data_shares());
  std::optional<PreferenceRows> preferences;
  RowsOfRecord rows_of;
  if (config.preference) {
    preferences.emplace(preference_rows(train, config, model));
    rows_of = [&](const RecordView& record) { return preferences->sizes_of(record); };
  }
  const LargestRows largest = find_largest_rows(train, order, begin, end, should_stop, rows_of);
  if (largest.rows == 0) return {};
  WantedRows most =
      wanted_rows(preferences ? preferences->pack(largest.records)
                              : pack_for(config.contrastive, model, train, largest.records));
  most.labelled = largest.labelled;
  most.attending = largest.attending > most.rows ? largest.attending : 0;
  return most;
}

}  // namespace clora
