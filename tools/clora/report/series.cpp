#include "tools/clora/report/series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/command_line/output.hpp"

namespace clora {

std::vector<double> axis_marks(double low, double high, int wanted) {
  const double rough = (high - low) / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double distance = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      distance = factor * power;
      break;
    }
  }
  std::vector<double> marks;
  const auto first = static_cast<std::int64_t>(std::ceil(low / distance - 1e-9));
  for (std::int64_t i = first; static_cast<double>(i) * distance <= high * (1 + 1e-12); ++i) {
    marks.push_back(static_cast<double>(i) * distance);
  }
  return marks;
}

SeriesPoints running_mean(const SeriesPoints& points) {
  const std::size_t reach = points.size() / 50;
  SeriesPoints means = points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t near = std::min({reach, i, points.size() - 1 - i});
    double sum = 0;
    for (std::size_t j = i - near; j <= i + near; ++j) sum += points[j].value;
    means[i].value = sum / static_cast<double>(2 * near + 1);
  }
  return means;
}

SeriesPoints thinned(const SeriesPoints& points, std::size_t most) {
  if (points.size() <= most) return points;
  const std::size_t ranges = most / 2 - 1, inner = points.size() - 2;
  SeriesPoints chosen{points.front()};
  for (std::size_t i = 0; i < ranges; ++i) {
    const auto at = [&](std::size_t range) {
      return points.begin() + 1 + static_cast<std::ptrdiff_t>(range * inner / ranges);
    };
    auto [low, high] = std::minmax_element(
        at(i), at(i + 1), [](const auto& a, const auto& b) { return a.value < b.value; });
    if (low > high) std::swap(low, high);
    chosen.push_back(*low);
    if (high != low) chosen.push_back(*high);
  }
  chosen.push_back(points.back());
  return chosen;
}

double level_at_end(const SeriesPoints& points) {
  if (points.empty()) return NAN;
  const std::size_t count = std::max<std::size_t>(points.size() / 10, 1);
  double sum = 0;
  for (std::size_t i = points.size() - count; i < points.size(); ++i) sum += points[i].value;
  return sum / static_cast<double>(count);
}

double median_of(const SeriesPoints& points) {
  if (points.empty()) return NAN;
  std::vector<double> values;
  for (const SeriesPoint& point : points) values.push_back(point.value);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

const SeriesPoint* lowest(const SeriesPoints& points) {
  const auto found = std::ranges::min_element(points, {}, &SeriesPoint::value);
  return found == points.end() ? nullptr : &*found;
}

std::string short_number(double value) {
  if (std::abs(value) >= 10000 && std::abs(value) < 1e15) return grouped(std::llround(value));
  return fmt::format("{:.4g}", value);
}

}  // namespace clora
