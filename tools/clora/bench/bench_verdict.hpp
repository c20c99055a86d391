// Compares two runs of the same benches row by row: faster, slower or no difference.
//
// The test is Welch's t interval (Welch, 1947: unequal variances, few samples) on the logarithms of
// the repetitions' times. A row counts as faster or slower if its entire ratio interval is on one
// side of 1. At 99 % about one unchanged row in a hundred is reported as changed. A verdict holds
// for these two runs only: it does not detect that the machine itself was slower in one of them
// (see machine_change()).
// Pure functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/clora/bench/bench_results.hpp"

namespace clora {

enum class Verdict { faster, slower, no_difference, too_few };
std::string_view name_of(Verdict verdict);

// The ratio of the geometric means, new time / old time.
struct RatioInterval {
  double ratio = 1;
  double low = 0;
  double high = 0;
};

constexpr double kConfidence = 0.99;

// The quantile of Student's t distribution: t with P(|T| <= t) = confidence. REQUIRES: degrees > 0,
// 0 < confidence < 1.
double student_t(double confidence, double degrees);

// REQUIRES: two or more samples on each side, all positive.
RatioInterval ratio_interval(std::span<const double> old_us, std::span<const double> new_us,
                             double confidence = kConfidence);

struct Comparison {
  std::string name;
  Verdict verdict = Verdict::too_few;
  RatioInterval interval;  // low and high are 0 for Verdict::too_few
};

// The rows that both runs have, in the order of the new run.
std::vector<Comparison> compare(const BenchResults& old_run, const BenchResults& new_run);

// Reasons not to compare the runs: different devices, or peaks that differ by more than 5 %. One
// line each.
std::vector<std::string> machine_change(const BenchResults& old_run, const BenchResults& new_run);

// "12.3 % slower (8.1 to 16.7)", "no difference (-1.2 to 2.0 %)"
std::string verdict_text(const Comparison& comparison);

}  // namespace clora
