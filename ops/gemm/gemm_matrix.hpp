// cl/gemm/gemm_matrix.cl: products on a GPU's matrix unit (cl/matrix/matrix_unit.clh).
#pragma once

#include <array>
#include <span>
#include <string>

#include "ops/dispatch/matrix_unit_defines.hpp"
#include "ops/gemm/gemm_kernels.hpp"
#include "ops/gemm/gemm_matrix_tiles.hpp"

namespace clora {

inline constexpr std::string_view kGemmMatrix = "gemm_matrix.cl";

// Any product, or several that satisfy gemm_matrix_can_group(); the shrink may be fused if
// gemm_matrix_fuses_shrink(). REQUIRES: a Context with a matrix unit (matrix_unit_of());
// gemm_matrix_passed() (ops/gemm/gemm_self_test.hpp), which the caller has checked.
void record_gemm_matrix(Batch& batch, std::span<const GemmProduct> problems);

// Whether one launch can compute them: two or three forward products of one x, or backward products
// of one sum, which are alike except for their widths.
bool gemm_matrix_can_group(const Context& context, std::span<const GemmProduct> problems);

// Whether the kernel can fuse the shrink of a product faster than a separate launch would be.
bool gemm_matrix_fuses_shrink(const Context& context, const GemmProduct& p);

// The tiling of record_gemm_matrix() for the problems, and the -D options of its program.
struct GemmMatrixProgram {
  MatrixUnitChoice unit;
  GemmMatrixTiles tiles;
  std::string options;
};
// units: compute units of the GPU.
GemmMatrixProgram gemm_matrix_program(MatrixUnitChoice unit, std::uint32_t units,
                                      std::span<const GemmProduct> problems);
// The program of problems of any size with these tiles. K is split into at most three slices. For
// self-tests: if types, extras and ranks are alike, the options are equal.
GemmMatrixProgram gemm_matrix_program_like(const GemmMatrixProgram& program,
                                           std::span<const GemmProduct> problems);
// As record_gemm_matrix(), with the unit and the tiles of the given program. REQUIRES: equal
// options.
void record_gemm_matrix_by(Batch& batch, std::span<const GemmProduct> problems,
                           const GemmMatrixProgram& program);

}  // namespace clora
