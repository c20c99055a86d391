// Products b a of low rank in f64, by their factors: norms, inner products and truncation, without
// the [N, K] matrix. Private to lora/ and model/. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <eigen3/Eigen/Dense>
#include <span>
#include <vector>

#include "clora/lora/adapter_matrices.hpp"

namespace clora {

// A matrix as files and ModuleMatrices store it.
using RowMajorMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// The product b at^T of an [N, K] matrix. Both are stored by columns, as decompositions need them.
struct LowRank {
  Eigen::MatrixXd b;   // [N, R]
  Eigen::MatrixXd at;  // [K, R]
};

// weight * scale * b a of the module.
LowRank product_of(const ModuleMatrices& module, double weight);

// The sum of the products: their factors side by side. REQUIRES: equal N and K, and one product.
LowRank sum_of(std::span<const LowRank> products);

// The module of scale 1 with this product.
ModuleMatrices module_of(const AdapterSite& site, const LowRank& product);

// The Frobenius norm, from the triangles of the QR decompositions: relative error of a few ulp of
// the largest factor, where the square root of trace(b^T b at^T at) would lose half of the digits.
double norm_of(const LowRank& product);

// trace((b1 a1)^T b2 a2). REQUIRES: equal N and K.
double inner_product(const LowRank& one, const LowRank& other);

// b a = u diag(s) v^T with orthonormal columns and descending s.
struct Decomposition {
  Eigen::MatrixXd u;   // [N, r]
  Eigen::VectorXd s;   // [r]
  Eigen::MatrixXd vt;  // [r, K]
};

// The decomposition with r = min(N, K, R): Householder QR of both factors, then the SVD of the
// product of their triangles, at most [R, R].
Decomposition decompose(const LowRank& product);

// The exact one of a dense matrix, with r = min(N, K).
Decomposition decompose(const Eigen::MatrixXd& matrix);

// An orthonormal basis [M, min(M, C)] of the columns of a matrix [M, C].
Eigen::MatrixXd orthonormal_basis(const Eigen::MatrixXd& matrix);

// The best approximation of `rank` (Eckart and Young, 1936), with sqrt(s) in each factor, so that
// both have the same norm. REQUIRES: 1 <= rank <= r.
LowRank truncated(const Decomposition& decomposition, std::int64_t rank);

// Returns the smallest rank, at least 1, whose sum of s^2 is at least `energy`; all if there is
// none.
std::int64_t rank_of_energy(const Eigen::VectorXd& s, double energy);

}  // namespace clora
