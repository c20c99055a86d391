#include "tools/clc/bench/sample_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/fail.hpp"

namespace clora {
namespace {

constexpr std::size_t kDraws = 2000;
constexpr double kOutside = 0.025;  // probability outside the interval on each side
constexpr double kIndifferent = 0.01;

// The quantile of sorted samples. REQUIRES: 0 <= share <= 1.
double quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - std::floor(at));
}

double smallest_step(std::span<const double> sorted) {
  double step = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const double apart = sorted[i] - sorted[i - 1];
    if (apart > 0 && (step == 0 || apart < step)) step = apart;
  }
  return step;
}

double median_in_place(std::vector<double>& samples) {
  const std::size_t half = samples.size() / 2;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(half);
  std::ranges::nth_element(samples, middle);
  if (samples.size() % 2 != 0) return *middle;
  return std::midpoint(*std::max_element(samples.begin(), middle), *middle);
}

double ratio_of(double now, double old) {
  if (old > 0) return now / old;
  return now > 0 ? std::numeric_limits<double>::infinity() : 1;
}

// A number in 0 .. count - 1. The distributions of standard libraries are not reproducible across
// implementations.
std::size_t draw(std::mt19937_64& random, std::size_t count) {
  return static_cast<std::size_t>((random() >> 32U) * count >> 32U);
}

}  // namespace

SampleSummary summary_of(std::span<const double> samples) {
  require(!samples.empty(), "sample statistics: a summary needs a sample, got none");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  return {.count = sorted.size(),
          .median = quantile(sorted, 0.5),
          .lower_quartile = quantile(sorted, 0.25),
          .upper_quartile = quantile(sorted, 0.75),
          .least = sorted.front(),
          .greatest = sorted.back(),
          .smallest_step = smallest_step(sorted)};
}

MedianRatio ratio_of_medians(std::span<const double> old_samples,
                             std::span<const double> new_samples, std::uint64_t seed) {
  const std::size_t rounds = old_samples.size();
  require(rounds > 0 && rounds == new_samples.size(),
          "sample statistics: a ratio needs pairs of samples, got {} and {}", rounds,
          new_samples.size());
  std::mt19937_64 random(seed);
  std::vector<double> old_drawn(rounds), new_drawn(rounds), ratios;
  for (std::size_t n = 0; n < kDraws; ++n) {
    for (std::size_t i = 0; i < rounds; ++i) {
      const std::size_t round = draw(random, rounds);
      old_drawn[i] = old_samples[round];
      new_drawn[i] = new_samples[round];
    }
    ratios.push_back(ratio_of(median_in_place(new_drawn), median_in_place(old_drawn)));
  }
  std::ranges::sort(ratios);
  return {.ratio = ratio_of(summary_of(new_samples).median, summary_of(old_samples).median),
          .low = quantile(ratios, kOutside),
          .high = quantile(ratios, 1 - kOutside)};
}

std::string_view name_of(SpeedVerdict verdict) {
  switch (verdict) {
    case SpeedVerdict::faster:
      return "faster";
    case SpeedVerdict::slower:
      return "slower";
    case SpeedVerdict::no_difference:
      break;
  }
  return "no difference";
}

SpeedVerdict verdict_on(const MedianRatio& ratio) {
  const bool holds_one = ratio.low <= 1 && ratio.high >= 1;
  if (holds_one || std::abs(ratio.ratio - 1) <= kIndifferent) return SpeedVerdict::no_difference;
  return ratio.ratio < 1 ? SpeedVerdict::faster : SpeedVerdict::slower;
}

}  // namespace clora
