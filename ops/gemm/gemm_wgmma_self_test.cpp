#include "ops/gemm/gemm_wgmma_self_test.hpp"

#include <algorithm>

#include "ops/gemm/gemm_hopper.hpp"

namespace clora {

bool gemm_wgmma_passed(Context& context, std::span<const GemmProduct> problems) {
  const WgmmaProgram program = gemm_wgmma_program(wgmma_device(context), problems);
  const FastKernel kernel{kGemmWgmma, "gemm_wgmma", kBf16Tolerance, program.options};
  return passed_self_test(context, kernel, [&](SelfTest& test) {
    const std::vector<GemmProduct> small = small_problems_like(test, problems);
    if (makes_reference(context)) return record_by_public_ops(test.batch(), small);
    record_gemm_wgmma_by(test.batch(), small, program);
  });
}

}  // namespace clora
