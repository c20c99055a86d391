// The learning rates of a run: schedules, warm-up, minimum, which rates a longer run shares, and
// the search of a rate.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "clora/model/training/rate_search.hpp"
#include "clora/model/training/training_config.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

TrainingRunConfig with(Schedule schedule, std::int64_t warmup = 0) {
  TrainingRunConfig c;
  c.learning_rate = 1;
  c.schedule = schedule;
  c.warmup_steps = warmup;
  return c;
}

TEST(LearningRate, WarmsUpThenFollowsItsSchedule) {
  TrainingRunConfig c = with(Schedule::constant, 4);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 1, 12), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 4, 12), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 12, 12), 1);
  c.schedule = Schedule::linear;
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 5, 12), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 9, 12), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 12, 12), 0.125);
  c.schedule = Schedule::cosine;
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 9, 12), 0.5);
}

TEST(LearningRate, SchedulesHaveNames) {
  for (const Schedule schedule :
       {Schedule::constant, Schedule::linear, Schedule::cosine, Schedule::wsd}) {
    EXPECT_EQ(named_schedule(name_of(schedule)), schedule);
  }
  EXPECT_EQ(test::error_of([] { named_schedule("step"); }),
            "training: the schedule must be constant, linear, cosine or wsd, got 'step'");
}

// The rates of 20 steps with 4 of warm-up, from tests/reference/schedules.py.
using Rates = std::array<double, 20>;
constexpr Rates kLinear{0,     0.25,   0.5, 0.75,   1,     0.9375, 0.875, 0.8125, 0.75,  0.6875,
                        0.625, 0.5625, 0.5, 0.4375, 0.375, 0.3125, 0.25,  0.1875, 0.125, 0.0625};
constexpr Rates kCosine{0,
                        0.25,
                        0.5,
                        0.75,
                        1,
                        0.990392640202,
                        0.961939766256,
                        0.915734806151,
                        0.853553390593,
                        0.77778511651,
                        0.691341716183,
                        0.597545161008,
                        0.5,
                        0.402454838992,
                        0.308658283817,
                        0.22221488349,
                        0.146446609407,
                        0.0842651938487,
                        0.0380602337444,
                        0.00960735979838};
constexpr Rates kCosineWithMinimum{0,
                                   0.25,
                                   0.5,
                                   0.75,
                                   1,
                                   0.991353376181,
                                   0.96574578963,
                                   0.924161325536,
                                   0.868198051534,
                                   0.800006604859,
                                   0.722207544564,
                                   0.637790644907,
                                   0.55,
                                   0.462209355093,
                                   0.377792455436,
                                   0.299993395141,
                                   0.231801948466,
                                   0.175838674464,
                                   0.13425421037,
                                   0.108646623819};
constexpr Rates kWsd{0,
                     0.25,
                     0.5,
                     0.75,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     0.5527864045,
                     0.367544467966,
                     0.225403330759,
                     0.105572809};
constexpr Rates kWsdWithMinimum{
    0.1, 0.325,         0.55,          0.775,          1,           1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1,   0.59750776405, 0.43079002117, 0.302862997683, 0.1950155281};

// In the warm-up, a rate is that of transformers' next step; its minimum does not enter.
void expect_rates_of_transformers(const TrainingRunConfig& config, const Rates& theirs) {
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const auto step = static_cast<std::int64_t>(i) + 1;
    const double expected = step <= 4 ? static_cast<double>(step) / 4 : theirs[i];
    EXPECT_NEAR(learning_rate_at(config, step, 20), expected, 1e-11) << "step " << step;
  }
}

TEST(LearningRate, IsThatOfTransformersAfterTheWarmUp) {
  for (const double share : {0.0, 0.2}) {  // of the run, for the warm-up, instead of 4 steps
    TrainingRunConfig c = with(Schedule::linear, share > 0 ? 0 : 4);
    c.warmup_share = share;
    c.decay_share = 0.25;
    expect_rates_of_transformers(c, kLinear);
    c.schedule = Schedule::cosine;
    expect_rates_of_transformers(c, kCosine);
    c.schedule = Schedule::wsd;
    expect_rates_of_transformers(c, kWsd);
    c.min_rate_share = 0.1;
    expect_rates_of_transformers(c, kWsdWithMinimum);
    c.schedule = Schedule::cosine;
    expect_rates_of_transformers(c, kCosineWithMinimum);
  }
}

TEST(LearningRate, WarmsUpForAShareOfTheRunRoundedUp) {
  TrainingRunConfig c;
  c.warmup_share = 0.03;
  EXPECT_EQ(warmup_steps_of(c, 100), 3);
  EXPECT_EQ(warmup_steps_of(c, 101), 4);
  EXPECT_EQ(warmup_steps_of(c, 1), 1);
  c.warmup_share = 1;
  EXPECT_EQ(warmup_steps_of(c, kMaxSteps), kMaxSteps);
}

TEST(LearningRate, DecaysAfterAWarmUpThatLeavesLessThanTheDecay) {
  TrainingRunConfig c = with(Schedule::wsd, 8);
  c.decay_share = 0.5;
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 8, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 9, 10), 1);  // the first of two steps of decay
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 10, 10), 1 - std::sqrt(0.5));
  c.warmup_steps = 30;
  EXPECT_DOUBLE_EQ(learning_rate_at(c, 10, 10), 1.0 / 3);
}

// Whether the first `last` rates are equal, by comparing them.
bool equal_rates(const TrainingRunConfig& c, std::int64_t last, std::int64_t a, std::int64_t b) {
  for (std::int64_t step = 1; step <= last; ++step) {
    if (learning_rate_at(c, step, a) != learning_rate_at(c, step, b)) return false;
  }
  return true;
}

TEST(LearningRate, IsTheSameInALongerRunUpToTheStepThatSameRatesSays) {
  for (const Schedule schedule :
       {Schedule::constant, Schedule::linear, Schedule::cosine, Schedule::wsd}) {
    for (const double share : {0.0, 0.05, 0.3}) {
      TrainingRunConfig c = with(schedule, share > 0 ? 0 : 3);
      c.warmup_share = share;
      for (const std::int64_t longer : {11, 14, 25}) {
        for (std::int64_t last = 0; last <= 10; ++last) {
          EXPECT_EQ(same_rates(c, last, 10, longer), equal_rates(c, last, 10, longer))
              << name_of(schedule) << ", warm-up share " << share << ", " << last << " of "
              << longer;
        }
      }
    }
  }
}

TEST(LearningRate, SettingsThatNoRunCanHaveAreRefused) {
  const auto expect_refused = [](auto change, const char* part) {
    TrainingRunConfig c = with(Schedule::wsd);
    change(c);
    CLORA_EXPECT_ERROR(check(c), ErrorCode::invalid_argument, part);
  };
  expect_refused([](auto& c) { c.warmup_share = 1.5; }, "warm-up's share of the run must be");
  expect_refused([](auto& c) { c.decay_share = -0.1; }, "decay's share of the run must be");
  expect_refused([](auto& c) { c.min_rate_share = std::nan(""); }, "share of the learning rate");
  expect_refused([](auto& c) { c.warmup_share = 0.9; }, "must add up to at most 1, got 0.9 and");
  expect_refused([](auto& c) { c.warmup_share = 0.1, c.warmup_steps = 2; },
                 "as steps or as a share of the run, got 2 and 0.1");
  expect_refused([](auto& c) { c.schedule = Schedule::constant, c.min_rate_share = 0.1; },
                 "requires a schedule that decays");
}

// ---- Searching a rate

// A curve that falls by `fall` around rate 1e-3, and rises steeply from 1e-1 on.
RateSearch curve(double fall) {
  RateSearch search{.first_loss = 2};
  for (int i = 0; i < 60; ++i) {
    const double decade = -6 + i / 10.0;
    const double change = -fall / (1 + std::exp(-4 * (decade + 3))) +
                          (decade > -1 ? 5 * (decade + 1) * (decade + 1) : 0);
    search.points.push_back({.learning_rate = std::pow(10, decade), .change = change});
  }
  return search;
}

TEST(RateSearch, SuggestsARateBelowTheOneAtWhichAQuarterOfTheFallIsLost) {
  RateSearch search = curve(1);
  suggest_rate(search);
  ASSERT_TRUE(search.suggested.has_value());
  EXPECT_NEAR(std::log10(*search.edge), -0.8, 0.01);  // 5 (0.2^2 + 0.02) - 1 > -0.75
  EXPECT_DOUBLE_EQ(*search.suggested, *search.edge / kRateSafety);
}

TEST(RateSearch, TakesTheFirstRiseBehindTheMinimum) {
  RateSearch search = curve(1);
  for (int i = 0; i < 5; ++i) {  // the loss falls back, but not below the minimum
    search.points.push_back({.learning_rate = 1.0 + i, .change = 4.0 - i});
  }
  suggest_rate(search);
  EXPECT_NEAR(std::log10(search.edge.value()), -0.8, 0.01);
}

TEST(RateSearch, SuggestsNothingIfTheLossHardlyFallsOrNeverRises) {
  RateSearch search = curve(0.015);
  suggest_rate(search);
  EXPECT_FALSE(search.suggested.has_value());
  search = curve(1);
  search.points.resize(48);
  suggest_rate(search);
  EXPECT_FALSE(search.suggested.has_value());
  search.diverged = true;  // by a loss that is not finite, which is no point
  suggest_rate(search);
  EXPECT_EQ(search.edge, search.points.back().learning_rate);
  search.points.clear();
  suggest_rate(search);
  EXPECT_FALSE(search.suggested.has_value());
}

TEST(RateSearch, SmoothsOverTheNeighboursThatExistOnBothSides) {
  RateSearch search{.first_loss = 1};
  for (const double change : {8.0, 0.0, 1.0, 2.0, 12.0, 3.0}) {
    search.points.push_back(
        {.learning_rate = std::pow(10.0, static_cast<double>(search.points.size())),
         .change = change});
  }
  suggest_rate(search);
  std::vector<double> smoothed;
  for (const RatePoint& point : search.points) smoothed.push_back(point.smoothed);
  EXPECT_EQ(smoothed, (std::vector<double>{8, 3, 23.0 / 5, 18.0 / 5, 17.0 / 3, 3}));
}

class RateSearchOfAModel : public test::TrainingRunTest {
 protected:
  RateSearch search(const TrainingRunConfig& c, const RateSearchConfig& how = {}) {
    Adapter adapter = new_adapter(0.1);
    return search_rate(open_->model, adapter, records_, c, how, {});
  }
};

TEST_F(RateSearchOfAModel, FindsARateThatTrainsAndEndsWhereTheLossRises) {
  const TrainingRunConfig c = config("out");
  const RateSearch found = search(c, {.highest = 1e3, .steps = 90});
  EXPECT_TRUE(found.diverged);
  EXPECT_LT(found.points.back().learning_rate, 1e3);
  ASSERT_TRUE(found.suggested.has_value());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  const auto last_loss = [&](double rate) {
    Adapter adapter = new_adapter();
    TrainingRunConfig run_of = c;
    run_of.steps = 40;
    run_of.learning_rate = rate;
    const std::vector<double> losses = run(adapter, run_of);
    return std::accumulate(losses.end() - 6, losses.end(), 0.0) / 6;
  };
  const double chosen = last_loss(*found.suggested);
  EXPECT_LT(chosen, last_loss(*found.suggested / 30));
  EXPECT_LT(chosen, 0.8 * found.first_loss);
}

TEST_F(RateSearchOfAModel, MeasuresChangesAgainstTheSameBatchesWithTheSameMasks) {
  const RateSearch found = search(config("out"), {.lowest = 1e-12, .highest = 1e-11, .steps = 10});
  EXPECT_FALSE(found.diverged);
  ASSERT_EQ(found.points.size(), 10U);
  for (const RatePoint& point : found.points) EXPECT_NEAR(point.change, 0, 1e-6);
  EXPECT_DOUBLE_EQ(found.points.front().learning_rate, 1e-12);
  EXPECT_NEAR(found.points.back().learning_rate, 1e-11, 1e-17);
}

TEST_F(RateSearchOfAModel, EndsWithoutASuggestionWhenTheUserStopsIt) {
  Adapter adapter = new_adapter();
  const RateSearch found =
      search_rate(open_->model, adapter, records_, config("out"), {},
                  [](std::int64_t done, std::int64_t of) { return done < 5 && of == 122; });
  EXPECT_TRUE(found.stopped);
  EXPECT_FALSE(found.suggested.has_value());
}

TEST_F(RateSearchOfAModel, RefusesRatesThatDoNotRise) {
  CLORA_EXPECT_ERROR(search(config("out"), {.lowest = 1, .highest = 1}),
                     ErrorCode::invalid_argument, "must rise from above 0, got 1 to 1");
  CLORA_EXPECT_ERROR(search(config("out"), {.steps = 9}), ErrorCode::invalid_argument,
                     "at least 10 steps");
}

}  // namespace
}  // namespace clora
