// A short causal convolution over packed documents, by loops in double, and its gradient.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace clora::reference {

struct ShortConvProblem {
  std::size_t channels = 0, width = 0;
  bool gated = false;               // else silu
  std::vector<double> taps;         // [W, C]
  std::vector<double> bias;         // [C], or empty
  std::vector<std::int32_t> first;  // [T]

  std::size_t rows() const { return first.size(); }
  std::size_t row_width() const { return gated ? 3 * channels : channels; }
};

// u of row t.
inline double short_conv_input(const ShortConvProblem& p, const std::vector<double>& x,
                               std::size_t t, std::size_t c) {
  const double* row = &x[t * p.row_width()];
  return p.gated ? row[c] * row[2 * p.channels + c] : row[c];
}

inline double short_conv_sum(const ShortConvProblem& p, const std::vector<double>& x, std::size_t t,
                             std::size_t c) {
  double z = p.bias.empty() ? 0 : p.bias[c];
  for (std::size_t lag = 0; lag < p.width && lag <= t; ++lag) {
    if (static_cast<std::int64_t>(t - lag) < p.first[t]) break;
    z += p.taps[lag * p.channels + c] * short_conv_input(p, x, t - lag, c);
  }
  return z;
}

// y [T, C]
inline std::vector<double> short_conv(const ShortConvProblem& p, const std::vector<double>& x) {
  std::vector<double> y;
  for (std::size_t t = 0; t < p.rows(); ++t) {
    for (std::size_t c = 0; c < p.channels; ++c) {
      const double z = short_conv_sum(p, x, t, c);
      y.push_back(p.gated ? x[t * p.row_width() + p.channels + c] * z : z / (1 + std::exp(-z)));
    }
  }
  return y;
}

// dx, of x's shape
inline std::vector<double> short_conv_backward(const ShortConvProblem& p,
                                               const std::vector<double>& dy,
                                               const std::vector<double>& x) {
  std::vector<double> dx(x.size());
  const std::size_t C = p.channels, row = p.row_width();
  for (std::size_t t = 0; t < p.rows(); ++t) {
    for (std::size_t c = 0; c < C; ++c) {
      const double z = short_conv_sum(p, x, t, c), d = dy[t * C + c];
      const double s = 1 / (1 + std::exp(-z));
      const double dz = p.gated ? d * x[t * row + C + c] : d * s * (1 + z * (1 - s));
      if (p.gated) dx[t * row + C + c] += d * z;
      for (std::size_t lag = 0; lag < p.width && lag <= t; ++lag) {
        const std::size_t from = t - lag;
        if (static_cast<std::int64_t>(from) < p.first[t]) break;
        const double du = p.taps[lag * C + c] * dz;
        if (p.gated) {
          dx[from * row + c] += du * x[from * row + 2 * C + c];
          dx[from * row + 2 * C + c] += du * x[from * row + c];
        } else {
          dx[from * row + c] += du;
        }
      }
    }
  }
  return dx;
}

}  // namespace clora::reference
