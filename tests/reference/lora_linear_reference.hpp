// lora_linear as naive loops in double. ops/lora_linear/lora_linear.hpp has the formulas. The
// dropout mask is given as factors of x (0 or 1 / (1 - p)); empty for no dropout.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/reference/gemm_reference.hpp"

namespace clora::test {

struct LoraLinearReference {
  std::size_t rows = 0;  // T
  std::size_t out = 0;   // N
  std::size_t in = 0;    // K
  std::size_t rank = 0;  // R
  double scale = 1;
  std::vector<double> w;          // [N, K]
  std::vector<double> a;          // [R, K]
  std::vector<double> bt;         // [R, N]
  std::vector<double> mask = {};  // [T, K]

  std::vector<double> dropped(std::vector<double> x) const {
    for (std::size_t i = 0; i < mask.size(); ++i) x[i] *= mask[i];
    return x;
  }
  std::vector<double> s(const std::vector<double>& x) const {
    return gemm_reference(dropped(x), a, {rows, rank, in});
  }
  std::vector<double> forward(const std::vector<double>& x) const {
    std::vector<double> y = gemm_reference(x, w, {rows, out, in});
    add_low_rank_reference(y, s(x), bt, rank, scale);
    return y;
  }
  // ds = scale dy b
  std::vector<double> ds(const std::vector<double>& dy) const {
    std::vector<double> result = gemm_reference(dy, bt, {rows, rank, out});
    for (double& value : result) value *= scale;
    return result;
  }
  std::vector<double> dx(const std::vector<double>& dy) const {
    std::vector<double> result = gemm_backward_reference(dy, w, {rows, out, in});
    std::vector<double> adapter(rows * in);
    add_low_rank_reference(adapter, ds(dy), a, rank, 1);
    adapter = dropped(adapter);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += adapter[i];
    return result;
  }
  std::vector<double> da(const std::vector<double>& dy, const std::vector<double>& x) const {
    return gradient(ds(dy), dropped(x), 1);
  }
  std::vector<double> dbt(const std::vector<double>& dy, const std::vector<double>& x) const {
    return gradient(s(x), dy, scale);
  }
  // scale * left [T, R]^T right [T, C]
  std::vector<double> gradient(const std::vector<double>& left, const std::vector<double>& right,
                               double factor) const {
    const std::size_t columns = right.size() / rows;
    std::vector<double> result(rank * columns);
    for (std::size_t t = 0; t < rows; ++t) {
      for (std::size_t r = 0; r < rank; ++r) {
        for (std::size_t c = 0; c < columns; ++c) {
          result[r * columns + c] += factor * left[t * rank + r] * right[t * columns + c];
        }
      }
    }
    return result;
  }
};

}  // namespace clora::test
