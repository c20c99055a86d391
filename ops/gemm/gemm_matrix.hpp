// cl/gemm/gemm_matrix.cl: products on a GPU's matrix unit (cl/matrix/matrix_unit.clh).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/dispatch/matrix_unit_defines.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "ops/gemm/gemm_matrix_tiles.hpp"

namespace clora {

inline constexpr std::string_view kGemmMatrix = "gemm_matrix.cl";

// Any product, or several that satisfy can_be_grouped() (ops/gemm/gemm_groups.hpp), and their
// shrinks: fused, or one launch for all of them before. REQUIRES: a Context with a matrix unit
// (matrix_unit_of()); gemm_matrix_passed() (ops/gemm/gemm_self_test.hpp), which the caller has
// checked.
void record_gemm_matrix(Batch& batch, std::span<const GemmProduct> problems);

struct GemmMatrixDevice {
  MatrixUnitChoice unit;
  GemmMatrixUnits units;
  GemmMatrixCosts costs;
};
GemmMatrixDevice gemm_matrix_device(const Context& context);

// A tiling of the kernel, and the -D options of its program.
struct GemmMatrixProgram {
  MatrixUnitChoice unit;
  GemmMatrixTiles tiles;
  std::string options;
};
// What record_gemm_matrix() records, in order.
struct GemmMatrixLaunch {
  std::vector<GemmProduct> problems;
  GemmMatrixProgram program;
};
std::vector<GemmMatrixLaunch> gemm_matrix_launches(const GemmMatrixDevice& device,
                                                   std::span<const GemmProduct> problems);

// The tiling of problems of any size with another program's tile, for its self-test. K is split
// into at most three slices. If types, extras and ranks are alike, the options are equal.
GemmMatrixProgram gemm_matrix_program_like(const GemmMatrixProgram& program,
                                           std::span<const GemmProduct> problems);
// One launch of the problems with the given program. REQUIRES: equal options.
void record_gemm_matrix_by(Batch& batch, std::span<const GemmProduct> problems,
                           const GemmMatrixProgram& program);

}  // namespace clora
