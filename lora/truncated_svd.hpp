// The approximation of a dense matrix by one of low rank. Private to lora/ and model/. Pure
// functions; thread-safe.
#pragma once

#include <cstdint>

#include "lora/low_rank.hpp"

namespace clora {

// Up to this many rows or columns, the decomposition is exact (BDCSVD).
inline constexpr std::int64_t kExactSvdSize = 192;

// The leading singular values and vectors of `matrix` [N, K], at least min(rank, N, K) of them.
// Exact up to kExactSvdSize. Beyond, a randomised range finder (Halko, Martinsson and Tropp, 2011,
// arXiv:0909.4061, algorithm 4.4) of P = rank + max(10, rank / 2) columns from a fixed seed, with 4
// power iterations. By its corollary 10.10, the expected spectral error of the range is at most
//   (1 + sqrt(r / (P - r - 1)) + e sqrt(P) / (P - r) * sqrt(min(N, K) - r))^(1/9)
// times the next singular value, the optimum: below 2 for sides up to 65536. Whatever the range, u
// is orthonormal and diag(s) v^T = u^T matrix, so the Frobenius error of a truncation is exactly
// sqrt(|matrix|^2 - sum of the kept s^2).
Decomposition leading_decomposition(const Eigen::Ref<const Eigen::MatrixXd>& matrix,
                                    std::int64_t rank);

// The product of `rank`, or of min(N, K) if that is less, nearest to the matrix.
LowRank approximation_of(const Eigen::Ref<const Eigen::MatrixXd>& matrix, std::int64_t rank);

}  // namespace clora
