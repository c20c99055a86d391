#include "tools/clc/call/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tools/command_line/config_file.hpp"

namespace clora {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Maps the values of the type to consecutive integers in order; both zeros map to 0.
std::int64_t order_of(ElementType type, std::uint64_t bits) {
  if (!is_float(type)) return static_cast<std::int64_t>(bits);
  const std::size_t sign = 8 * bytes_of(type) - 1;
  const std::uint64_t size = bits & ~(~std::uint64_t{0} << sign);
  const auto distance = static_cast<std::int64_t>(size);
  return (bits >> sign & 1U) != 0 ? -distance : distance;
}

struct Distance {
  double absolute = 0, relative = 0, ulp = 0;
};

Distance distance_between(const HostArray& got, const HostArray& wanted, std::int64_t i) {
  const double a = got.value(i), b = wanted.value(i);
  if (std::isnan(a) && std::isnan(b)) return {};
  if (a == b && (is_float(got.type) || got.bits(i) == wanted.bits(i))) return {};
  if (!std::isfinite(a) || !std::isfinite(b)) return {kInfinite, kInfinite, kInfinite};
  const std::uint64_t near = got.type == wanted.type ? wanted.bits(i) : bits_of_value(got.type, b);
  const double ulp = ulps_between(got.type, got.bits(i), near);
  const double absolute = is_float(got.type) ? std::abs(a - b) : ulp;
  return {absolute, b == 0 ? kInfinite : absolute / std::abs(b), ulp};
}

// The distance as a multiple of the tolerance; up to 1 passes.
double excess_of(const Distance& distance, double wanted, const Tolerance& tolerance) {
  if (distance.absolute == 0) return 0;
  const double allowed = tolerance.atol.value_or(0) + tolerance.rtol.value_or(0) * std::abs(wanted);
  double excess = allowed > 0 ? distance.absolute / allowed : kInfinite;
  if (tolerance.ulp && *tolerance.ulp > 0) excess = std::min(excess, distance.ulp / *tolerance.ulp);
  return excess;
}

void require_alike(const HostArray& got, const HostArray& wanted, const std::string& name) {
  if (got.shape != wanted.shape) {
    throw UsageError(
        fmt::format("comparison: shapes must be equal, '{}' is {} and its reference is {}", name,
                    got.text(), wanted.text()));
  }
  const bool both_float = is_float(got.type) && is_float(wanted.type);
  if (!both_float && got.type != wanted.type) {
    throw UsageError(fmt::format(
        "comparison: types must be equal, or both be floats; '{}' is {} and its reference is {}",
        name, got.text(), wanted.text()));
  }
}

}  // namespace

std::string Tolerance::text() const {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " or ") + word; };
  if (atol && rtol) {
    add(fmt::format("atol {} + rtol {}", *atol, *rtol));
  } else if (atol) {
    add(fmt::format("atol {}", *atol));
  } else if (rtol) {
    add(fmt::format("rtol {}", *rtol));
  }
  if (ulp) add(fmt::format("{} ulp", *ulp));
  return words.empty() ? "equal" : words;
}

ArrayComparison compare(const HostArray& got, const HostArray& wanted, const Tolerance& tolerance,
                        const std::string& name) {
  require_alike(got, wanted, name);
  ArrayComparison result;
  std::pair<double, double> worst{0, 0};  // excess, then absolute
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const Distance distance = distance_between(got, wanted, i);
    if (distance.absolute == 0) continue;
    const double excess = excess_of(distance, wanted.value(i), tolerance);
    result.max_absolute = std::max(result.max_absolute, distance.absolute);
    result.max_relative = std::max(result.max_relative, distance.relative);
    result.max_ulp = std::max(result.max_ulp, distance.ulp);
    if (const std::pair here{excess, distance.absolute}; here > worst) {
      worst = here;
      result.worst = i;
    }
    if (excess <= 1) continue;
    if (result.bad++ == 0) result.first_bad = i;
  }
  return result;
}

double ulps_between(ElementType type, std::uint64_t a, std::uint64_t b) {
  if (type == ElementType::u64) return static_cast<double>(std::max(a, b) - std::min(a, b));
  const std::int64_t x = order_of(type, a), y = order_of(type, b);
  const auto distance =
      static_cast<std::uint64_t>(std::max(x, y)) - static_cast<std::uint64_t>(std::min(x, y));
  return static_cast<double>(distance);
}

}  // namespace clora
