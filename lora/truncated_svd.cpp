#include "lora/truncated_svd.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lora/sparsification.hpp"

namespace clora {
namespace {

using Eigen::MatrixXd;

constexpr int kPowerIterations = 4;
constexpr std::uint64_t kSeed = 20110101;

// Independent normal values (Box and Muller, 1958), the same on every platform up to the rounding
// of its log and cos.
MatrixXd normal_matrix(Eigen::Index rows, Eigen::Index columns) {
  RandomBits random(kSeed);
  const auto uniform = [&] { return (static_cast<double>(random.next() >> 11U) + 0.5) * 0x1p-53; };
  MatrixXd matrix(rows, columns);
  for (Eigen::Index c = 0; c < columns; ++c) {
    for (Eigen::Index r = 0; r < rows; ++r) {
      const double radius = std::sqrt(-2 * std::log(uniform()));
      matrix(r, c) = radius * std::cos(2 * std::numbers::pi * uniform());
    }
  }
  return matrix;
}

// An orthonormal basis [N, columns] of nearly the leading left singular vectors.
MatrixXd range_of(const Eigen::Ref<const MatrixXd>& matrix, Eigen::Index columns) {
  MatrixXd basis = orthonormal_basis(matrix * normal_matrix(matrix.cols(), columns));
  for (int i = 0; i < kPowerIterations; ++i) {
    const MatrixXd rows = orthonormal_basis(matrix.transpose() * basis);
    basis = orthonormal_basis(matrix * rows);
  }
  return basis;
}

}  // namespace

Decomposition leading_decomposition(const Eigen::Ref<const MatrixXd>& matrix, std::int64_t rank) {
  const std::int64_t size = std::min(matrix.rows(), matrix.cols());
  const std::int64_t columns = rank + std::max<std::int64_t>(10, rank / 2);
  if (size <= kExactSvdSize || columns >= size) return decompose(MatrixXd(matrix));
  const MatrixXd basis = range_of(matrix, columns);
  // The small side first: basis^T matrix = (q r)^T is [P, K], and only r^T [P, P] is decomposed.
  const LowRank projected{.b = basis, .at = matrix.transpose() * basis};
  return decompose(projected);
}

LowRank approximation_of(const Eigen::Ref<const MatrixXd>& matrix, std::int64_t rank) {
  const Decomposition leading = leading_decomposition(matrix, rank);
  return truncated(leading, std::min<std::int64_t>(rank, leading.s.size()));
}

}  // namespace clora
