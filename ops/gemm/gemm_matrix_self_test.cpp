#include "ops/gemm/gemm_matrix_self_test.hpp"

#include <algorithm>

#include "ops/gemm/gemm_matrix.hpp"
#include "ops/gemm/gemm_self_test_problems.hpp"

namespace clora {
namespace {

bool launch_passed(Context& context, const GemmMatrixLaunch& launch) {
  const FastKernel kernel{kGemmMatrix, "gemm_matrix", kBf16Tolerance, launch.program.options};
  return passed_self_test(context, kernel, [&](SelfTest& test) {
    const std::vector<GemmProduct> small = small_problems_like(test, launch.problems);
    if (makes_reference(context)) return record_by_public_ops(test.batch(), small);
    record_gemm_matrix_by(test.batch(), small, launch.program);
  });
}

}  // namespace

bool gemm_matrix_passed(Context& context, std::span<const GemmProduct> problems) {
  const auto launches = gemm_matrix_launches(gemm_matrix_device(context), problems);
  return std::ranges::all_of(
      launches, [&](const GemmMatrixLaunch& launch) { return launch_passed(context, launch); });
}

}  // namespace clora
