#include "clora/model/training/rate_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "clora/model/training/evaluator.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/training/training_run.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr double kDiverged = 0.25;      // of the first loss, by which the loss has risen
constexpr double kLost = 0.25;          // of the fall, at the edge
constexpr double kLeastDescent = 0.01;  // of the first loss
constexpr std::ptrdiff_t kReach = 2;    // points on either side in a smoothed value

void check(const RateSearchConfig& search) {
  require(search.lowest > 0 && search.highest > search.lowest && std::isfinite(search.highest),
          "rate search: the rates must rise from above 0, got {} to {}", search.lowest,
          search.highest);
  require(search.steps >= 10, "rate search: at least 10 steps are required, got {}", search.steps);
}

// The two passes over the same batches.
class Sweep {
 public:
  Sweep(LanguageModel& model, Adapter& adapter, const Records& train,
        const TrainingRunConfig& config, const RateSearchConfig& search,
        const std::function<bool(std::int64_t, std::int64_t)>& on_step)
      : model_(model),
        train_(train),
        config_(config),
        search_(search),
        on_step_(on_step),
        trainer_(model, adapter, trainer_config(config)),
        order_(order_of(config, train.data_shares())) {}

  RateSearch run() {
    const Trainer::State start = trainer_.state();
    // A batch more than rates: its loss follows the update at the highest rate.
    while (trainer_.steps() <= search_.steps && !result_.stopped) measure(0);
    note(trainer_.drain());
    result_.first_loss = std::accumulate(losses_.begin(), losses_.end(), 0.0) /
                         static_cast<double>(std::max<std::size_t>(1, losses_.size()));
    first_ = std::exchange(losses_, {});
    trainer_.restore(start);
    try {
      while (trainer_.steps() <= search_.steps && !result_.stopped && !has_diverged()) {
        measure(rate_at(trainer_.steps()));
      }
      note(trainer_.drain());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::diverged) throw;
      result_.diverged = true;
    }
    add_points();
    suggest_rate(result_);
    return result_;
  }

 private:
  double rate_at(std::int64_t step) const {
    const double share = static_cast<double>(step) / static_cast<double>(search_.steps - 1);
    return search_.lowest * std::pow(search_.highest / search_.lowest, std::min(share, 1.0));
  }

  void measure(double rate) {
    std::vector<PackedRows> batches;
    for (const auto& indices : order_.micro_batches(static_cast<std::size_t>(trainer_.steps()))) {
      batches.push_back(pack_for(config_.contrastive, model_.config(), train_, indices));
    }
    note(trainer_.step(batches, rate));
    const std::int64_t done = trainer_.steps() + (first_.empty() ? 0 : search_.steps + 1);
    result_.stopped = on_step_ && !on_step_(done, 2 * (search_.steps + 1));
  }

  void note(const std::optional<StepResult>& result) {
    if (result) losses_.push_back(result->loss);
  }

  double change_at(std::size_t i) const { return losses_[i] - first_[i]; }

  // By the median of the last three changes, which a single batch cannot move.
  bool has_diverged() {
    if (losses_.size() < 3) return false;
    std::array<double, 3> last{};
    for (std::size_t i = 0; i < 3; ++i) last.at(i) = change_at(losses_.size() - 1 - i);
    std::ranges::sort(last);
    result_.diverged = last[1] > kDiverged * std::abs(result_.first_loss);
    return result_.diverged;
  }

  void add_points() {
    for (std::size_t i = 1; i < losses_.size(); ++i) {
      result_.points.push_back(
          {.learning_rate = rate_at(static_cast<std::int64_t>(i) - 1), .change = change_at(i)});
    }
  }

  LanguageModel& model_;
  const Records& train_;
  const TrainingRunConfig& config_;
  const RateSearchConfig& search_;
  const std::function<bool(std::int64_t, std::int64_t)>& on_step_;
  Trainer trainer_;
  DataOrder order_;
  std::vector<double> losses_;  // of the steps of this pass
  std::vector<double> first_;   // of those of the first one
  RateSearch result_;
};

void smooth(std::vector<RatePoint>& points) {
  for (std::ptrdiff_t i = 0; i < std::ssize(points); ++i) {
    const std::ptrdiff_t reach = std::min({kReach, i, std::ssize(points) - 1 - i});
    double sum = 0;
    for (std::ptrdiff_t j = i - reach; j <= i + reach; ++j) {
      sum += points[static_cast<std::size_t>(j)].change;
    }
    points[static_cast<std::size_t>(i)].smoothed = sum / static_cast<double>(2 * reach + 1);
  }
}

}  // namespace

RateSearch search_rate(LanguageModel& model, Adapter& adapter, const Records& train,
                       const TrainingRunConfig& config, const RateSearchConfig& search,
                       const std::function<bool(std::int64_t, std::int64_t)>& on_step) {
  check(search);
  return Sweep(model, adapter, train, config, search, on_step).run();
}

void suggest_rate(RateSearch& search) {
  std::vector<RatePoint>& points = search.points;
  smooth(points);
  search.edge = search.suggested = std::nullopt;
  if (points.empty()) return;
  const auto lowest = std::ranges::min_element(points, {}, &RatePoint::smoothed);
  if (lowest->smoothed > -kLeastDescent * std::abs(search.first_loss)) return;
  const auto edge = std::find_if(lowest, points.end(), [&](const RatePoint& point) {
    return point.smoothed > (1 - kLost) * lowest->smoothed;
  });
  if (edge == points.end() && !search.diverged) return;
  search.edge = (edge == points.end() ? points.back() : *edge).learning_rate;
  search.suggested = *search.edge / kRateSafety;
}

}  // namespace clora
