// layer_norm as naive loops in double. The width is that of w; x holds full rows.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace clora::reference {

struct LayerNormStatistics {
  double mean = 0;
  double scale = 0;  // 1 / sqrt(variance + epsilon)
};

inline LayerNormStatistics layer_norm_statistics(std::span<const double> row, double epsilon) {
  const auto width = static_cast<double>(row.size());
  double mean = 0;
  for (const double v : row) mean += v / width;
  double variance = 0;
  for (const double v : row) variance += (v - mean) * (v - mean) / width;
  return {mean, 1 / std::sqrt(variance + epsilon)};
}

inline std::vector<double> layer_norm(std::span<const double> x, std::span<const double> w,
                                      std::span<const double> bias, double epsilon) {
  const std::size_t width = w.size();
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < x.size(); row += width) {
    const auto [mean, scale] = layer_norm_statistics(x.subspan(row, width), epsilon);
    for (std::size_t i = 0; i < width; ++i) {
      y[row + i] = (x[row + i] - mean) * scale * w[i] + bias[i];
    }
  }
  return y;
}

// dx without a residual.
inline std::vector<double> layer_norm_backward(std::span<const double> dy,
                                               std::span<const double> x, std::span<const double> w,
                                               double epsilon) {
  const std::size_t width = w.size();
  std::vector<double> dx(x.size());
  for (std::size_t row = 0; row < x.size(); row += width) {
    const auto [mean, scale] = layer_norm_statistics(x.subspan(row, width), epsilon);
    double mean_g = 0;
    double mean_product = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double g = dy[row + i] * w[i];
      mean_g += g / static_cast<double>(width);
      mean_product += g * (x[row + i] - mean) * scale / static_cast<double>(width);
    }
    for (std::size_t i = 0; i < width; ++i) {
      const double n = (x[row + i] - mean) * scale;
      dx[row + i] = scale * (dy[row + i] * w[i] - mean_g - n * mean_product);
    }
  }
  return dx;
}

}  // namespace clora::reference
