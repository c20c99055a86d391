// The learning rate range test: training steps on a run's own data with an exponentially rising
// rate, whose losses show which rates train and which diverge (Smith 2017, "Cyclical learning rates
// for training neural networks", arXiv:1506.01186).
//
// Batches differ in their loss by more than a few steps change it. Therefore each batch's loss of
// the adapter as it is given is measured first, with a rate of 0 and the same dropout masks, and
// the curve is made of differences: the change of the loss by training.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "clora/lora/adapter.hpp"
#include "clora/model/data/records.hpp"
#include "clora/model/training/training_config.hpp"
#include "clora/model/transformer/language_model.hpp"

namespace clora {

struct RateSearchConfig {
  double lowest = 1e-6, highest = 1;  // of the learning rate
  std::int64_t steps = 60;            // from the one to the other, by equal factors
};

struct RatePoint {
  double learning_rate = 0;  // of the step before the loss
  double change = 0;         // of the batch's loss by the steps so far, nats per token
  double smoothed = 0;       // the mean of the changes at this and the two rates on either side
};

struct RateSearch {
  std::vector<RatePoint> points = {};  // by rising rate
  double first_loss = 0;               // mean over the batches, of the given adapter
  bool diverged = false;               // the sweep ended before the highest rate
  bool stopped = false;                // by on_step
  // The rate at which the smoothed loss has risen again by a quarter of its fall, or the highest
  // one before a loss that was not finite.
  std::optional<double> edge = {};
  std::optional<double> suggested = {};  // edge / kRateSafety
};

// The rule: the best rate is usually within a factor of two of the largest one that does not
// diverge (Bengio 2012, "Practical recommendations for gradient-based training of deep
// architectures", arXiv:1206.5533, section 3.1.1). The sweep finds the edge too high, since it
// takes few steps at each rate and a run takes many, so the suggestion is below it by this factor.
inline constexpr double kRateSafety = 4;

// Trains with rising rates until the loss is more than a quarter above that of the given adapter,
// or not finite. The adapter and the moments are undefined afterwards: throw the adapter away.
// config: of the run; its rate, schedule and number of steps are not used. on_step(done, of) is
// called after each step of either pass; returning false ends the search (stopped).
// No rate is suggested if the loss falls by less than 1 % of its first value, or does not rise
// again up to the highest rate. Errors: those of Trainer and order_of(); invalid_argument for rates
// that do not rise or fewer than 10 steps.
RateSearch search_rate(LanguageModel& model, Adapter& adapter, const Records& train,
                       const TrainingRunConfig& config, const RateSearchConfig& search,
                       const std::function<bool(std::int64_t done, std::int64_t of)>& on_step);

// The pure part: fills `smoothed`, `edge` and `suggested` from rates, changes, first_loss and
// diverged.
void suggest_rate(RateSearch& search);

}  // namespace clora
