#include "tools/clora/bench/bench_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace clora {
namespace {

struct Moments {
  double mean = 0;
  double variance_of_mean = 0;
  double degrees = 0;
};

Moments moments_of_logarithms(std::span<const double> samples) {
  const auto count = static_cast<double>(samples.size());
  Moments moments{.degrees = count - 1};
  for (const double us : samples) moments.mean += std::log(us) / count;
  double squares = 0;
  for (const double us : samples) squares += std::pow(std::log(us) - moments.mean, 2);
  moments.variance_of_mean = squares / moments.degrees / count;
  return moments;
}

// P(|T| <= t). With T = sqrt(degrees) tan(angle) the density is proportional to cos(angle)^(degrees
// - 1); both integrals use Simpson's rule.
double share_within(double t, double degrees) {
  const auto integral = [degrees](double end) {
    constexpr int kSteps = 2000;
    const double step = end / kSteps;
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const double weight = i == 0 || i == kSteps ? 1 : (i % 2 == 1 ? 4 : 2);
      sum += weight * std::pow(std::max(std::cos(i * step), 0.0), degrees - 1);
    }
    return sum * step / 3;
  };
  // At degrees near 1 the density does not vanish at the upper end, which does no harm.
  return integral(std::atan(t / std::sqrt(degrees))) / integral(std::acos(0.0));
}

Verdict verdict_of(const RatioInterval& interval) {
  if (interval.high < 1) return Verdict::faster;
  return interval.low > 1 ? Verdict::slower : Verdict::no_difference;
}

double percent(double ratio) { return 100 * (ratio - 1); }

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::no_difference:
      return "no difference";
    case Verdict::too_few:
      break;
  }
  return "too few repetitions";
}

double student_t(double confidence, double degrees) {
  double low = 0, high = 1;
  while (share_within(high, degrees) < confidence && high < 1e9) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (share_within(middle, degrees) < confidence ? low : high) = middle;
  }
  return high;
}

RatioInterval ratio_interval(std::span<const double> old_us, std::span<const double> new_us,
                             double confidence) {
  const Moments before = moments_of_logarithms(old_us), after = moments_of_logarithms(new_us);
  const double difference = after.mean - before.mean;
  const double variance = before.variance_of_mean + after.variance_of_mean;
  if (variance <= 0) return {std::exp(difference), std::exp(difference), std::exp(difference)};
  const double degrees =  // Welch and Satterthwaite
      variance * variance /
      (before.variance_of_mean * before.variance_of_mean / before.degrees +
       after.variance_of_mean * after.variance_of_mean / after.degrees);
  const double reach = student_t(confidence, degrees) * std::sqrt(variance);
  return {std::exp(difference), std::exp(difference - reach), std::exp(difference + reach)};
}

std::vector<Comparison> compare(const BenchResults& old_run, const BenchResults& new_run) {
  std::vector<Comparison> all;
  for (const BenchRow& row : new_run.rows) {
    const BenchRow* before = old_run.find(row.name);
    if (before == nullptr || before->samples.empty() || row.samples.empty()) continue;
    Comparison comparison;
    comparison.name = row.name;
    comparison.interval.ratio = row.typical_us() / before->typical_us();
    if (before->samples.size() > 1 && row.samples.size() > 1) {
      comparison.interval = ratio_interval(before->samples, row.samples);
      comparison.verdict = verdict_of(comparison.interval);
    }
    all.push_back(std::move(comparison));
  }
  return all;
}

std::vector<std::string> machine_change(const BenchResults& old_run, const BenchResults& new_run) {
  std::vector<std::string> lines;
  for (const char* key : {"device", "driver", "cpu_model"}) {
    if (old_run.fact(key) != new_run.fact(key)) {
      lines.push_back(fmt::format("the {} was '{}' and is now '{}'", key, old_run.fact(key),
                                  new_run.fact(key)));
    }
  }
  constexpr double kDrift = 0.05;
  for (const auto& [key, what] :
       {std::pair{"peak_copy_gbps", "copy bandwidth"}, {"peak_fma_gflops", "f32 peak"}}) {
    const double before = old_run.number(key), after = new_run.number(key);
    if (before <= 0 || after <= 0 || std::abs(after / before - 1) <= kDrift) continue;
    lines.push_back(
        fmt::format("the machine's {} is {:.2f} times its earlier value", what, after / before));
  }
  return lines;
}

std::string verdict_text(const Comparison& comparison) {
  const auto& [ratio, low, high] = comparison.interval;
  switch (comparison.verdict) {
    case Verdict::faster:
      return fmt::format("{:.1f} % faster ({:.1f} to {:.1f})", -percent(ratio), -percent(high),
                         -percent(low));
    case Verdict::slower:
      return fmt::format("{:.1f} % slower ({:.1f} to {:.1f})", percent(ratio), percent(low),
                         percent(high));
    case Verdict::no_difference:
      return fmt::format("no difference ({:+.1f} to {:+.1f} %)", percent(low), percent(high));
    case Verdict::too_few:
      break;
  }
  return fmt::format("{:+.1f} %, too few repetitions for a verdict", percent(ratio));
}

}  // namespace clora
