// swiglu as naive loops in double.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace clora::reference {

inline double silu(double g) { return g / (1 + std::exp(-g)); }

inline double silu_derivative(double g) {
  const double s = 1 / (1 + std::exp(-g));
  return s + g * s * (1 - s);
}

inline std::vector<double> swiglu(std::span<const double> gate, std::span<const double> up) {
  std::vector<double> y(gate.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = silu(gate[i]) * up[i];
  return y;
}

struct SwigluGradients {
  std::vector<double> dgate;
  std::vector<double> dup;
};

inline SwigluGradients swiglu_backward(std::span<const double> dy, std::span<const double> gate,
                                       std::span<const double> up) {
  SwigluGradients d{std::vector<double>(dy.size()), std::vector<double>(dy.size())};
  for (std::size_t i = 0; i < dy.size(); ++i) {
    d.dgate[i] = dy[i] * up[i] * silu_derivative(gate[i]);
    d.dup[i] = dy[i] * silu(gate[i]);
  }
  return d;
}

}  // namespace clora::reference
