#include "serving/histogram.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace clora {

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds), counts_(bounds.size() + 1) {}

void Histogram::observe(double value, std::uint64_t times) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  counts_[static_cast<std::size_t>(bucket)] += times;
  sum_ += value * static_cast<double>(times);
}

std::string Histogram::text(std::string_view name, std::string_view labels) const {
  std::string lines;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    lines += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, count);
  }
  lines += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels, sum_, count);
  return lines;
}

}  // namespace clora
