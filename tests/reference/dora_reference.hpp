// Layers with weight-decomposed adapters as naive loops in double: ops/lora_linear/dora.hpp has the
// formulas. w + scale b a is materialised, and its norms are constants in the gradients.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "tests/reference/lora_linear_reference.hpp"

namespace clora::test {

struct DoraReference {
  LoraLinearReference layer;  // with the mask of dropout, or without one
  std::vector<double> magnitude;
  std::vector<double> bias = {};

  std::vector<double> norms() const {
    const auto& [rows, out, in, rank, scale, w, a, bt, mask] = layer;
    std::vector<double> result(out);
    for (std::size_t n = 0; n < out; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < in; ++k) {
        double value = w[n * in + k];
        for (std::size_t r = 0; r < rank; ++r) value += scale * bt[r * out + n] * a[r * in + k];
        sum += value * value;
      }
      result[n] = std::sqrt(sum);
    }
    return result;
  }
  std::vector<double> column_scale() const {
    std::vector<double> g = norms();
    for (std::size_t n = 0; n < g.size(); ++n) g[n] = g[n] == 0 ? 0 : magnitude[n] / g[n];
    return g;
  }
  // g (w drop(x) + scale b a drop(x))
  std::vector<double> f(const std::vector<double>& x, const std::vector<double>& g) const {
    LoraLinearReference without = layer;
    without.mask = {};
    std::vector<double> result = without.forward(layer.dropped(x));
    for (std::size_t i = 0; i < result.size(); ++i) result[i] *= g[i % layer.out];
    return result;
  }
  // PEFT's sum of the base layer, w x + bias, and the rest.
  std::vector<double> forward(const std::vector<double>& x, const std::vector<double>& g) const {
    std::vector<double> y = f(x, g);
    const GemmReferenceSize size{layer.rows, layer.out, layer.in};
    const auto base = gemm_reference(x, layer.w, size);
    const auto dropped = gemm_reference(layer.dropped(x), layer.w, size);
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] += base[i] - dropped[i] + (bias.empty() ? 0 : bias[i % layer.out]);
    }
    return y;
  }
  std::vector<double> scaled(std::vector<double> dy, const std::vector<double>& g) const {
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] *= g[i % layer.out];
    return dy;
  }
  std::vector<double> dmagnitude(const std::vector<double>& dy,
                                 const std::vector<double>& f) const {
    std::vector<double> result(layer.out);
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const double m = magnitude[i % layer.out];
      if (m != 0) result[i % layer.out] += dy[i] * f[i] / m;
    }
    return result;
  }
  // dy w + drop'((g - 1) dy w + ds a), ds = scale g dy b
  std::vector<double> dx(const std::vector<double>& dy, const std::vector<double>& g) const {
    std::vector<double> difference = scaled(dy, g);
    const std::vector<double> through = layer.ds(difference);
    for (std::size_t i = 0; i < dy.size(); ++i) difference[i] -= dy[i];
    std::vector<double> adapter =
        gemm_backward_reference(difference, layer.w, {layer.rows, layer.out, layer.in});
    add_low_rank_reference(adapter, through, layer.a, layer.rank, 1);
    adapter = layer.dropped(adapter);
    std::vector<double> result =
        gemm_backward_reference(dy, layer.w, {layer.rows, layer.out, layer.in});
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += adapter[i];
    return result;
  }
};

}  // namespace clora::test
