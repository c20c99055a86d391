// gelu as naive loops in double; the tanh form is gelu() of swiglu_reference.hpp.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "clora/ops/rowwise/gelu.hpp"
#include "tests/reference/swiglu_reference.hpp"

namespace clora::reference {

struct GeluValues {
  std::vector<double> y, dx;
};

inline GeluValues gelu(std::span<const double> dy, std::span<const double> x, GeluForm form) {
  GeluValues values;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (form == GeluForm::tanh) {
      values.y.push_back(gelu(x[i]));
      values.dx.push_back(dy[i] * gelu_derivative(x[i]));
      continue;
    }
    const double P = std::erfc(-x[i] / std::sqrt(2.0)) / 2;
    const double p = std::exp(-x[i] * x[i] / 2) / std::sqrt(2 * M_PI);
    values.y.push_back(x[i] * P);
    values.dx.push_back(dy[i] * (P + x[i] * p));
  }
  return values;
}

}  // namespace clora::reference
