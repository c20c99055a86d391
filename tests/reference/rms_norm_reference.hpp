// rms_norm as naive loops in double. The width is that of w; x holds full rows.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace clora::reference {

// 1 / sqrt(mean(x^2) + epsilon) of one row.
inline double rms_norm_scale(std::span<const double> row, double epsilon) {
  double squares = 0;
  for (const double v : row) squares += v * v;
  return 1 / std::sqrt(squares / static_cast<double>(row.size()) + epsilon);
}

inline std::vector<double> rms_norm(std::span<const double> x, std::span<const double> w,
                                    double epsilon) {
  const std::size_t width = w.size();
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < x.size(); row += width) {
    const double scale = rms_norm_scale(x.subspan(row, width), epsilon);
    for (std::size_t i = 0; i < width; ++i) y[row + i] = x[row + i] * scale * w[i];
  }
  return y;
}

// dx without a residual.
inline std::vector<double> rms_norm_backward(std::span<const double> dy, std::span<const double> x,
                                             std::span<const double> w, double epsilon) {
  const std::size_t width = w.size();
  std::vector<double> dx(x.size());
  for (std::size_t row = 0; row < x.size(); row += width) {
    const double scale = rms_norm_scale(x.subspan(row, width), epsilon);
    double products = 0;
    for (std::size_t i = 0; i < width; ++i) products += dy[row + i] * w[i] * x[row + i];
    const double mean = products / static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) {
      dx[row + i] = scale * (dy[row + i] * w[i] - x[row + i] * scale * scale * mean);
    }
  }
  return dx;
}

}  // namespace clora::reference
