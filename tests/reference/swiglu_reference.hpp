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

// gelu by its definition with tanh.
inline double gelu(double g) {
  const double v = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
  return g / 2 * (1 + std::tanh(v));
}

inline double gelu_derivative(double g) {
  const double root = std::sqrt(2 / M_PI);
  const double t = std::tanh(root * (g + 0.044715 * g * g * g));
  return (1 + t) / 2 + g / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * g * g);
}

struct GegluValues {
  std::vector<double> y, dgate, dup;
};

inline GegluValues geglu(std::span<const double> dy, std::span<const double> gate,
                         std::span<const double> up) {
  GegluValues values;
  for (std::size_t i = 0; i < dy.size(); ++i) {
    values.y.push_back(gelu(gate[i]) * up[i]);
    values.dgate.push_back(dy[i] * up[i] * gelu_derivative(gate[i]));
    values.dup.push_back(dy[i] * gelu(gate[i]));
  }
  return values;
}

// With the sigmoid in place of silu.
inline GegluValues sigmoid_gate(std::span<const double> dy, std::span<const double> gate,
                                std::span<const double> up) {
  GegluValues values;
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const double s = 1 / (1 + std::exp(-gate[i]));
    values.y.push_back(s * up[i]);
    values.dgate.push_back(dy[i] * up[i] * s * (1 - s));
    values.dup.push_back(dy[i] * s);
  }
  return values;
}

}  // namespace clora::reference
