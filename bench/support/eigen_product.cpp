#include <Eigen/Dense>

#include "bench/support/host_products.hpp"

namespace clora::bench {

void eigen_product(const HostProductSizes& sizes, float* y, const float* x, const float* w) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> left(x, sizes.m, sizes.k);
  const Eigen::Map<const Matrix> right(w, sizes.n, sizes.k);
  Eigen::Map<Matrix>(y, sizes.m, sizes.n).noalias() = left * right.transpose();
}

}  // namespace clora::bench
