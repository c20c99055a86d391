// Statistics of kernel times: median and spread, and whether one kernel is faster than another.
// Pure functions; thread-safe.
//
// Medians are used rather than means, because a launch that another program disturbs may be late by
// any amount but is never early.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace clora {

struct SampleSummary {
  std::size_t count = 0;
  double median = 0;
  double lower_quartile = 0, upper_quartile = 0;
  double least = 0, greatest = 0;
  double smallest_step = 0;  // least non-zero difference; 0: all are equal
};

// Quantiles are interpolated between samples. REQUIRES: at least one sample; no NaN.
SampleSummary summary_of(std::span<const double> samples);

// The ratio of two medians, new / old, with its 95 % confidence interval.
struct MedianRatio {
  double ratio = 1;
  double low = 1, high = 1;
};

// The percentile bootstrap of paired samples: old_samples[i] and new_samples[i] are from one round.
// Rounds are resampled with replacement 2000 times, and the interval holds the middle 95 % of the
// ratios (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13). Pairs stay
// together, so a slow phase of the machine affects both samples. The result is reproducible for a
// seed.
// The ratio to a median of 0 is infinite; that of two medians of 0 is 1.
// REQUIRES: the same number of samples on each side, at least one.
MedianRatio ratio_of_medians(std::span<const double> old_samples,
                             std::span<const double> new_samples, std::uint64_t seed = 1);

enum class SpeedVerdict { faster, slower, no_difference };
// "faster", "slower", "no difference"
std::string_view name_of(SpeedVerdict verdict);

// The verdict on the new kernel. No difference: the interval contains 1, or the ratio is within 1 %
// of 1, an effect that code placement alone can have.
SpeedVerdict verdict_on(const MedianRatio& ratio);

}  // namespace clora
