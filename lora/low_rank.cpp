#include "lora/low_rank.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/fail.hpp"

namespace clora {
namespace {

using Eigen::MatrixXd;

Eigen::Index index_of(std::int64_t value) { return static_cast<Eigen::Index>(value); }

using Qr = Eigen::HouseholderQR<MatrixXd>;

// The first min(M, C) columns of q, and rows of r, of the decomposition of [M, C].
MatrixXd thin_q(const Qr& qr) {
  return qr.householderQ() * MatrixXd::Identity(qr.rows(), std::min(qr.rows(), qr.cols()));
}
MatrixXd thin_r(const Qr& qr) {
  const Eigen::Index rows = std::min(qr.rows(), qr.cols());
  return qr.matrixQR().topRows(rows).triangularView<Eigen::Upper>();
}

}  // namespace

LowRank product_of(const ModuleMatrices& module, double weight) {
  const Eigen::Index rank = index_of(module.rank);
  const Eigen::Map<const RowMajorMatrix> b(module.b.data(), index_of(module.site.outputs), rank);
  const Eigen::Map<const MatrixXd> at(module.a.data(), index_of(module.site.inputs), rank);
  return {.b = b, .at = weight * module.scale * at};
}

LowRank sum_of(std::span<const LowRank> products) {
  require(!products.empty(), "low rank: a sum must have at least one product");
  Eigen::Index rank = 0;
  for (const LowRank& product : products) rank += product.b.cols();
  LowRank sum{.b = MatrixXd(products.front().b.rows(), rank),
              .at = MatrixXd(products.front().at.rows(), rank)};
  rank = 0;
  for (const LowRank& product : products) {
    sum.b.middleCols(rank, product.b.cols()) = product.b;
    sum.at.middleCols(rank, product.at.cols()) = product.at;
    rank += product.b.cols();
  }
  return sum;
}

ModuleMatrices module_of(const AdapterSite& site, const LowRank& product) {
  ModuleMatrices module{.site = site,
                        .rank = static_cast<std::int64_t>(product.b.cols()),
                        .scale = 1,
                        .a = std::vector<double>(static_cast<std::size_t>(product.at.size())),
                        .b = std::vector<double>(static_cast<std::size_t>(product.b.size()))};
  Eigen::Map<MatrixXd>(module.a.data(), product.at.rows(), product.at.cols()) = product.at;
  Eigen::Map<RowMajorMatrix>(module.b.data(), product.b.rows(), product.b.cols()) = product.b;
  return module;
}

double norm_of(const LowRank& product) {
  return (thin_r(Qr(product.b)) * thin_r(Qr(product.at)).transpose()).norm();
}

double inner_product(const LowRank& one, const LowRank& other) {
  const MatrixXd bs = one.b.transpose() * other.b;
  const MatrixXd as = one.at.transpose() * other.at;
  return bs.cwiseProduct(as).sum();
}

Decomposition decompose(const MatrixXd& matrix) {
  const Eigen::BDCSVD<MatrixXd> svd(matrix, Eigen::ComputeThinU | Eigen::ComputeThinV);
  return {.u = svd.matrixU(), .s = svd.singularValues(), .vt = svd.matrixV().transpose()};
}

Decomposition decompose(const LowRank& product) {
  const Qr b(product.b), at(product.at);
  const MatrixXd core = thin_r(b) * thin_r(at).transpose();
  const Decomposition inner = decompose(core);
  return {.u = thin_q(b) * inner.u, .s = inner.s, .vt = inner.vt * thin_q(at).transpose()};
}

MatrixXd orthonormal_basis(const MatrixXd& matrix) { return thin_q(Qr(matrix)); }

LowRank truncated(const Decomposition& decomposition, std::int64_t rank) {
  const Eigen::Index r = index_of(rank);
  require(rank >= 1 && r <= decomposition.s.size(),
          "low rank: the rank must be from 1 to {}, got {}", decomposition.s.size(), rank);
  const Eigen::VectorXd root = decomposition.s.head(r).cwiseSqrt();
  return {.b = decomposition.u.leftCols(r) * root.asDiagonal(),
          .at = decomposition.vt.topRows(r).transpose() * root.asDiagonal()};
}

std::int64_t rank_of_energy(const Eigen::VectorXd& s, double energy) {
  double sum = 0;
  std::int64_t rank = 0;
  while (rank < s.size() && (rank == 0 || sum < energy)) {
    sum += s[index_of(rank)] * s[index_of(rank)];
    ++rank;
  }
  return rank;
}

}  // namespace clora
