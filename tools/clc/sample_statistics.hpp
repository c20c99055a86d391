// What samples of a kernel's time say: their middle and spread, and whether one kernel is faster
// than another. Pure functions; thread-safe.
//
// Medians, not means: a launch that another program disturbed is late by any amount, never early.
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
  double smallest_step = 0;  // between two of them that differ; 0: all are equal
};

// Quantiles between two samples are interpolated. REQUIRES: a sample or more, none of them NaN.
SampleSummary summary_of(std::span<const double> samples);

// The ratio of two medians, new / old, and the interval in which it lies with a confidence of 95 %.
struct MedianRatio {
  double ratio = 1;
  double low = 1, high = 1;
};

// Samples come in pairs, old_samples[i] and new_samples[i] measured in one round. Rounds are drawn
// with replacement, as many as there are, 2000 times, and the interval is that of the middle 95 %
// of the ratios found (the percentile interval of Efron and Tibshirani, An Introduction to the
// Bootstrap, 1993, chapter 13). Pairs are kept together, so that a slow minute of the machine hits
// both. The draws are the same on every machine for one seed.
// A ratio to a median of 0 is infinite, that of two such medians 1.
// REQUIRES: as many samples on each side, one or more.
MedianRatio ratio_of_medians(std::span<const double> old_samples,
                             std::span<const double> new_samples, std::uint64_t seed = 1);

enum class SpeedVerdict { faster, slower, no_difference };
// "faster", "slower", "no difference"
std::string_view name_of(SpeedVerdict verdict);

// Of the new one. No difference: where the interval holds 1, or the ratio is within 1 % of it,
// which where code happens to lie can make.
SpeedVerdict verdict_on(const MedianRatio& ratio);

}  // namespace clora
