// gemm as naive loops in double. ops/gemm/gemm.hpp has the formulas.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace clora::test {

struct GemmReferenceSize {
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
};

// y [M, N] = x [M, K] w [N, K]^T
inline std::vector<double> gemm_reference(std::span<const double> x, std::span<const double> w,
                                          GemmReferenceSize size) {
  std::vector<double> y(size.m * size.n);
  for (std::size_t m = 0; m < size.m; ++m) {
    for (std::size_t n = 0; n < size.n; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < size.k; ++k) sum += x[m * size.k + k] * w[n * size.k + k];
      y[m * size.n + n] = sum;
    }
  }
  return y;
}

// dx [M, K] = dy [M, N] w [N, K]
inline std::vector<double> gemm_backward_reference(std::span<const double> dy,
                                                   std::span<const double> w,
                                                   GemmReferenceSize size) {
  std::vector<double> dx(size.m * size.k);
  for (std::size_t m = 0; m < size.m; ++m) {
    for (std::size_t n = 0; n < size.n; ++n) {
      const double factor = dy[m * size.n + n];
      for (std::size_t k = 0; k < size.k; ++k) dx[m * size.k + k] += factor * w[n * size.k + k];
    }
  }
  return dx;
}

// y [M, C] += scale * s [M, R] u [R, C]
inline void add_low_rank_reference(std::vector<double>& y, std::span<const double> s,
                                   std::span<const double> u, std::size_t rank, double scale) {
  if (rank == 0) return;
  const std::size_t rows = s.size() / rank;
  const std::size_t columns = u.size() / rank;
  for (std::size_t m = 0; m < rows; ++m) {
    for (std::size_t r = 0; r < rank; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        y[m * columns + c] += scale * s[m * rank + r] * u[r * columns + c];
      }
    }
  }
}

}  // namespace clora::test
