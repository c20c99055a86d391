// The parts of clc bench: statistics on known samples, amounts, fractions of peaks, and the
// picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tools/clc/bench/bench_report.hpp"
#include "tools/clc/bench/roofline_picture.hpp"
#include "tools/clc/bench/sample_statistics.hpp"

namespace clora {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A time near `middle` for each round, with random noise of a few per cent.
std::vector<double> noisy(double middle, std::size_t rounds, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> samples(rounds);
  for (double& sample : samples) {
    sample = middle * (0.97 + 0.06 * static_cast<double>(random() % 1000) / 1000);
  }
  return samples;
}

TEST(SampleStatistics, GivesMedianAndQuartilesBetweenSamplesToo) {
  const SampleSummary odd = summary_of(std::vector<double>{5, 1, 4, 2, 3});
  EXPECT_EQ(odd.count, 5U);
  EXPECT_DOUBLE_EQ(odd.median, 3);
  EXPECT_DOUBLE_EQ(odd.lower_quartile, 2);
  EXPECT_DOUBLE_EQ(odd.upper_quartile, 4);
  EXPECT_DOUBLE_EQ(odd.smallest_step, 1);
  EXPECT_DOUBLE_EQ(summary_of(std::vector<double>{7, 2, 2.5, 7}).smallest_step, 0.5);
  EXPECT_DOUBLE_EQ(summary_of(std::vector<double>{7, 7}).smallest_step, 0);
  const SampleSummary even = summary_of(std::vector<double>{4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.lower_quartile, 1.75);
  EXPECT_DOUBLE_EQ(even.least, 1);
  EXPECT_DOUBLE_EQ(even.greatest, 4);
  EXPECT_DOUBLE_EQ(summary_of(std::vector<double>{7}).upper_quartile, 7);
  EXPECT_ANY_THROW((void)summary_of(std::vector<double>{}));
}

TEST(SampleStatistics, IntervalsHoldTheTrueRatioAndAreTheSameEachTime) {
  const auto old_times = noisy(10, 200, 1), new_times = noisy(8, 200, 2);
  const MedianRatio ratio = ratio_of_medians(old_times, new_times);
  EXPECT_LT(ratio.low, ratio.ratio);
  EXPECT_GT(ratio.high, ratio.ratio);
  EXPECT_LT(ratio.low, 0.8);
  EXPECT_GT(ratio.high, 0.8);
  EXPECT_LT(ratio.high - ratio.low, 0.02);
  const MedianRatio again = ratio_of_medians(old_times, new_times);
  EXPECT_EQ(ratio.low, again.low);
  EXPECT_EQ(ratio.high, again.high);
  EXPECT_ANY_THROW((void)ratio_of_medians(old_times, std::vector<double>{1}));
}

// Of the intervals of samples that differ by chance alone, about one in twenty excludes 1.
TEST(SampleStatistics, NineteenIntervalsOfTwentyHoldTheRatio) {
  int held = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const MedianRatio ratio =
        ratio_of_medians(noisy(10, 40, 2 * seed), noisy(10, 40, 2 * seed + 1), seed);
    held += ratio.low <= 1 && ratio.high >= 1 ? 1 : 0;
  }
  EXPECT_GE(held, 88);
  EXPECT_LE(held, 100);
}

// A machine that becomes ten times slower half-way affects both times of a pair.
TEST(SampleStatistics, KeepsPairsTogether) {
  std::vector<double> old_times, new_times;
  for (int i = 0; i < 101; ++i) {
    const double machine = i < 51 ? 1 : 10;
    old_times.push_back(machine);
    new_times.push_back(0.9 * machine);
  }
  const MedianRatio ratio = ratio_of_medians(old_times, new_times);
  EXPECT_DOUBLE_EQ(ratio.low, 0.9);
  EXPECT_DOUBLE_EQ(ratio.high, 0.9);
  EXPECT_EQ(verdict_on(ratio), SpeedVerdict::faster);
}

TEST(SampleStatistics, JudgesByTheIntervalAndLeavesOnePerCentOut) {
  EXPECT_EQ(verdict_on({1.3, 1.2, 1.4}), SpeedVerdict::slower);
  EXPECT_EQ(verdict_on({0.7, 0.6, 0.8}), SpeedVerdict::faster);
  EXPECT_EQ(verdict_on({1.3, 0.9, 1.6}), SpeedVerdict::no_difference);
  EXPECT_EQ(verdict_on({0.7, 0.5, 1.0}), SpeedVerdict::no_difference);
  EXPECT_EQ(verdict_on({1.009, 1.008, 1.011}), SpeedVerdict::no_difference);
  EXPECT_EQ(verdict_on({1.02, 1.015, 1.03}), SpeedVerdict::slower);
  const auto same = noisy(3, 50, 5);
  EXPECT_EQ(verdict_on(ratio_of_medians(same, same)), SpeedVerdict::no_difference);
}

TEST(SampleStatistics, TakesTimesBelowTheClocksStep) {
  const std::vector<double> none(10, 0.0), some(10, 1e-6);
  EXPECT_EQ(verdict_on(ratio_of_medians(none, none)), SpeedVerdict::no_difference);
  EXPECT_EQ(verdict_on(ratio_of_medians(none, some)), SpeedVerdict::slower);
  EXPECT_EQ(verdict_on(ratio_of_medians(some, none)), SpeedVerdict::faster);
}

TEST(BenchReport, ReportsTheLimitingPeakAndItsFraction) {
  const BenchPeaks peaks{100e9, 1000e9, "f32"};
  MeasuredKernel row;
  row.seconds.median = 1e-3;
  row.cost = {.flops = 1e8, .bytes = 50e6};
  EXPECT_EQ(limit_of(row.cost, peaks), LimitedBy::memory);
  EXPECT_DOUBLE_EQ(percent_of_roofline(row, peaks), 50);
  row.cost.flops = 8e8;
  EXPECT_EQ(limit_of(row.cost, peaks), LimitedBy::arithmetic);
  EXPECT_DOUBLE_EQ(percent_of_roofline(row, peaks), 80);
  row.cost = {};
  EXPECT_EQ(limit_of(row.cost, peaks), LimitedBy::nothing);
  EXPECT_DOUBLE_EQ(percent_of_roofline(row, peaks), 0);
}

TEST(BenchReport, ReportsNoRatesForATimeBelowTheClocksResolution) {
  MeasuredKernel row;
  row.cost = {.flops = 1, .bytes = 1};
  const BenchPeaks peaks{1e9, 1e9, "f32"};
  const std::string table = bench_table({row}, peaks);
  EXPECT_THAT(table, Not(HasSubstr("inf")));
  EXPECT_THAT(table, Not(HasSubstr("nan")));
  const auto json = bench_json(row, peaks);
  EXPECT_TRUE(json["gb_per_s"].is_null());
  EXPECT_TRUE(json["percent_of_roofline"].is_null());
}

RooflinePeaks some_peaks() {
  RooflinePeaks peaks;
  peaks.copy_bytes_per_second = 1e11;
  peaks.f32_flops_per_second = 1e12;
  return peaks;
}

// The number after `name` in the n-th element that begins with `element`.
double number_in(const std::string& svg, const std::string& element, int n,
                 const std::string& name) {
  std::size_t at = svg.find(element);
  for (int i = 1; i < n; ++i) at = svg.find(element, at + 1);
  at = svg.find(name, at);
  return std::stod(svg.substr(at + name.size()));
}

TEST(RooflinePicture, PutsPointsAsFarBelowTheirRoofAsTheyAre) {
  // At 1 flop/byte the roof is 1e11, a decade below the peak of arithmetic.
  const std::string svg = roofline_picture({"k",
                                            "d",
                                            some_peaks(),
                                            {{"warm", 1, 1e11},
                                             {"cold", 1, 1e10, true},
                                             {"old", 0.1, std::sqrt(10) * 1e9, false, true}}});
  const double warm = number_in(svg, "<circle class=\"new\"", 1, "cy=\"");
  const double cold = number_in(svg, "<circle class=\"new cold\"", 1, "cy=\"");
  const double old = number_in(svg, "<circle class=\"old\"", 1, "cy=\"");
  const double decade = cold - warm;
  EXPECT_GT(decade, 20);
  EXPECT_NEAR(old, cold + decade / 2, 0.2);
  EXPECT_LT(number_in(svg, "<circle class=\"old\"", 1, "cx=\""),
            number_in(svg, "<circle class=\"new\"", 1, "cx=\""));
  EXPECT_NEAR(number_in(svg, "<path class=\"roof\"", 1, "L"),  // the slope ends above 10
              number_in(svg, "<path class=\"roof\"", 2, "d=\"M"), 0.2);
  const std::string flat = svg.substr(svg.find("d=\"M", svg.find("f32") - 120));
  EXPECT_NEAR(std::stod(flat.substr(flat.find(' '))), warm - decade, 0.2);
}

TEST(RooflinePicture, NamesKernelDeviceRoofsAndPoints) {
  RooflinePeaks peaks = some_peaks();
  peaks.matrix_flops_per_second = 4e12;
  const std::string svg = roofline_picture(
      {"<k>", "a & b", peaks, {{"warm: 1 us", 1, 1e10}, {"cold, old", 1, 1e9, true, true}}});
  for (const char* text : {"&lt;k&gt;", "on a &amp; b", "memory 100 GB/s", "f32 1 TFLOP/s",
                           "matrix unit 4 TFLOP/s", "warm: 1 us", "cold, old", "class=\"old cold\"",
                           "flops per byte of memory", "flops per second"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST(RooflinePicture, OmitsPointsThatCannotBeDrawn) {
  const std::string svg =
      roofline_picture({"k", "d", some_peaks(), {{"no flops", 0, 0}, {"no time", 1, kInfinite}}});
  EXPECT_THAT(svg, Not(HasSubstr("<circle")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

}  // namespace
}  // namespace clora
