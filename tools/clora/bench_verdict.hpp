// Faster, slower, or no difference: two runs of the same benches compared row by row.
//
// The question is asked of the logarithms of the repetitions' times by Welch's t interval (Welch,
// 1947: unequal variances, few samples). A verdict falls where the whole interval of the ratio lies
// on one side of 1; at 99 % about one row in a hundred that did not change gets one. It speaks of
// these two runs: that the machine itself was slower in one of them is no chance (see
// machine_change()).
// Pure functions; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/clora/bench_results.hpp"

namespace clora {

enum class Verdict { faster, slower, no_difference, too_few };
std::string_view name_of(Verdict verdict);

// The ratio new time / old time, of geometric means.
struct RatioInterval {
  double ratio = 1;
  double low = 0;
  double high = 0;
};

constexpr double kConfidence = 0.99;

// The quantile of Student's t distribution: t with P(|T| <= t) = confidence. REQUIRES: degrees > 0,
// 0 < confidence < 1.
double student_t(double confidence, double degrees);

// REQUIRES: two or more samples on each side, all above 0.
RatioInterval ratio_interval(std::span<const double> old_us, std::span<const double> new_us,
                             double confidence = kConfidence);

struct Comparison {
  std::string name;
  Verdict verdict = Verdict::too_few;
  RatioInterval interval;  // low and high are 0 with Verdict::too_few
};

// The rows that both runs have, in the order of the new one.
std::vector<Comparison> compare(const BenchResults& old_run, const BenchResults& new_run);

// What speaks against comparing the two at all: other devices, or peaks that moved by more than
// a twentieth. One line each.
std::vector<std::string> machine_change(const BenchResults& old_run, const BenchResults& new_run);

// "12.3 % slower (8.1 to 16.7)", "no difference (-1.2 to 2.0 %)"
std::string verdict_text(const Comparison& comparison);

}  // namespace clora
