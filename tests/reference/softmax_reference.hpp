// softmax as naive loops in double, over rows of `width` columns.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace clora::reference {

inline std::vector<double> softmax(std::span<const double> x, std::size_t width) {
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < x.size(); row += width) {
    const double row_max = std::ranges::max(x.subspan(row, width));
    double sum = 0;
    for (std::size_t i = row; i < row + width; ++i) sum += y[i] = std::exp(x[i] - row_max);
    for (std::size_t i = row; i < row + width; ++i) y[i] /= sum;
  }
  return y;
}

inline std::vector<double> softmax_backward(std::span<const double> dy, std::span<const double> y,
                                            std::size_t width) {
  std::vector<double> dx(y.size());
  for (std::size_t row = 0; row < y.size(); row += width) {
    double sum = 0;
    for (std::size_t i = row; i < row + width; ++i) sum += dy[i] * y[i];
    for (std::size_t i = row; i < row + width; ++i) dx[i] = y[i] * (dy[i] - sum);
  }
  return dx;
}

}  // namespace clora::reference
