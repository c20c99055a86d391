#include "tools/clc/tune/tune_costs.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "ops/tuned/tuned.hpp"
#include "runtime/elapsed.hpp"
#include "tools/clc/bench/sample_statistics.hpp"
#include "tools/clc/tune/cost_models.hpp"
#include "tools/clc/tune/cost_search.hpp"
#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

using nlohmann::ordered_json;

constexpr double kSampleSeconds = 0.004;  // of repeated launches: much longer than the wake-up
constexpr int kMaxRepeats = 200;
constexpr int kSamples = 5;
constexpr int kRounds = 11;  // of the comparison at the end

// A problem's launches under some costs, repeated so that waking the device takes little of the
// time.
class TimedPlan {
 public:
  TimedPlan(Context& context, const PreparedProblem& problem) : batch_(context) {
    Batch once(context);
    problem.record(once);
    once.submit().wait();
    const double about = seconds_of(once);
    repeats_ = std::clamp(static_cast<int>(kSampleSeconds / about), 1, kMaxRepeats);
    for (int i = 0; i < repeats_; ++i) problem.record(batch_);
    seconds_of(batch_);
  }

  double seconds() { return seconds_of(batch_) / repeats_; }
  double median_seconds() {
    std::vector<double> samples;
    for (int i = 0; i < kSamples; ++i) samples.push_back(seconds());
    return summary_of(samples).median;
  }

 private:
  static double seconds_of(Batch& batch) {
    const auto begin = std::chrono::steady_clock::now();
    batch.submit().wait();
    return seconds_since(begin);
  }

  Batch batch_;
  int repeats_ = 1;
};

// The times of a model's plans on a Context; each plan of a problem is timed once.
class ModelTimes {
 public:
  ModelTimes(Context& context, const CostModel& model) : context_(context), model_(model) {
    for (const CostProblem& each : model.problems) problems_.emplace_back(context, each);
  }

  CostOutcome outcome_of(const NamedCosts& costs) {
    model_.set(context_, costs);
    CostOutcome outcome;
    double logarithms = 0;
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      const std::string plan = plan_of(i);
      const auto [known, is_new] = times_.try_emplace({i, plan}, 0.0);
      if (is_new) known->second = TimedPlan(context_, problems_[i]).median_seconds();
      logarithms += std::log(known->second);
      outcome.plans += plan;
    }
    outcome.seconds = std::exp(logarithms / static_cast<double>(problems_.size()));
    return outcome;
  }

  // The ratio of the times with `costs` to those with `first`, of the problems whose plans differ,
  // each counting the same; timed in turns, so that a disturbance of the machine affects both.
  MedianRatio compared(const NamedCosts& first, const NamedCosts& costs) {
    std::vector<double> of_first(kRounds), of_costs(kRounds);
    for (std::size_t i = 0; i < problems_.size(); ++i) {
      model_.set(context_, first);
      const std::string plan = plan_of(i);
      TimedPlan before(context_, problems_[i]);
      model_.set(context_, costs);
      if (plan_of(i) == plan) continue;
      TimedPlan after(context_, problems_[i]);
      const double unit = before.median_seconds();
      for (std::size_t round = 0; round < kRounds; ++round) {
        of_first[round] += before.seconds() / unit;
        of_costs[round] += after.seconds() / unit;
      }
    }
    if (of_first.front() == 0) return {};
    return ratio_of_medians(of_first, of_costs);
  }

  std::size_t plans() const { return times_.size(); }

 private:
  std::string plan_of(std::size_t i) const {
    Batch batch(context_);
    problems_[i].record(batch);
    return batch.launches_text();
  }

  Context& context_;
  const CostModel& model_;
  std::vector<PreparedProblem> problems_;
  std::map<std::pair<std::size_t, std::string>, double> times_;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
}

std::string changes_text(const NamedCosts& from, const NamedCosts& to) {
  std::string text;
  for (const auto& [name, cost] : to) {
    if (cost == from.at(name)) continue;
    text += fmt::format("{}{} {:.4g} (was {:.4g})", text.empty() ? "" : ", ", name, cost,
                        from.at(name));
  }
  return text;
}

class CostTuning {
 public:
  explicit CostTuning(const TuneOptions& options)
      : options_(options), output_(options.call.common.output), context_(config()) {
    table_path_ =
        options.table.empty() ? tuned_table_path(config_from_environment()) : options.table;
  }

  int operator()() {
    bool found = false;
    for (const CostModel& model : cost_models()) {
      if (options_.costs != "all" && options_.costs != model.name) continue;
      found = true;
      if (const char* reason = model.unavailable(context_)) {
        output_.info("{}: not on this device: {}; its costs stay", model.name, reason);
      } else {
        tune(model);
      }
    }
    if (!found) throw UsageError(fmt::format("--costs: no model is called '{}'", options_.costs));
    output_.object({{"device", context_.device().name}, {"models", models_}});
    return 0;
  }

 private:
  ContextConfig config() const {
    ContextConfig config = config_from_environment();
    if (!options_.call.common.device.empty()) config.device = options_.call.common.device;
    config.precision = Precision::automatic;
    config.capture.reset();
    return config;
  }

  void tune(const CostModel& model) {
    output_.info("{} on {}: {} problems", model.name, context_.device().name,
                 model.problems.size());
    const NamedCosts start = model.costs(context_);
    ModelTimes times(context_, model);
    const CostSearchResult found =
        search_costs(start, [&](const NamedCosts& costs) { return times.outcome_of(costs); });
    const MedianRatio ratio = times.compared(start, found.best);
    const bool gains = verdict_on(ratio) == SpeedVerdict::faster;
    model.set(context_, gains ? found.best : start);
    report(model, start, found, ratio);
    if (found.best != start && !gains) output_.result("  no gain: they are not written");
    if (gains && !options_.dry_run) write(model, found.best);
  }

  void report(const CostModel& model, const NamedCosts& start, const CostSearchResult& found,
              const MedianRatio& ratio) {
    const std::string changes = changes_text(start, found.best);
    output_.result("{}: {}", model.name, changes.empty() ? "no other costs are faster" : changes);
    if (!changes.empty()) {
      output_.result("  where plans differ: gain {:.3f}x ({:.3f} to {:.3f})", 1 / ratio.ratio,
                     1 / ratio.high, 1 / ratio.low);
    }
    if (!found.without_effect.empty()) {
      output_.result("  not measured, since no plan of these problems depends on them: {}",
                     fmt::join(found.without_effect, ", "));
    }
    models_.push_back({{"model", model.name},
                       {"values", found.best},
                       {"gain", 1 / ratio.ratio},
                       {"without_effect", found.without_effect}});
  }

  void write(const CostModel& model, const NamedCosts& costs) {
    if (table_path_.empty()) return;
    TunedTable table = TunedTable::read(table_path_);
    table.put(CostEntry{.model = std::string(model.name),
                        .device = context_.device().name,
                        .driver = context_.device().driver,
                        .date = today(),
                        .values = costs});
    std::filesystem::create_directories(std::filesystem::absolute(table_path_).parent_path());
    table.write(table_path_);
    output_.result("  written to {}", table_path_.string());
  }

  const TuneOptions& options_;
  Output output_;
  Context context_;
  std::filesystem::path table_path_;  // empty: no table is written
  ordered_json models_ = ordered_json::array();
};

}  // namespace

int tune_costs(const TuneOptions& options) { return CostTuning(options)(); }

}  // namespace clora
