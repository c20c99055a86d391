// cl/loss/cross_entropy_head_matrix.cl: the head fused with its loss, on a GPU's matrix unit
// (cl/matrix/matrix_unit.clh).
#pragma once

#include "ops/dispatch/matrix_unit_defines.hpp"
#include "ops/loss/cross_entropy_head_dispatch.hpp"

namespace clora {

inline constexpr std::string_view kHeadLossMatrix = "cross_entropy_head_matrix.cl";

// The tiles of a work-group, -D values of the kernel (cl/gemm/gemm_matrix.cl).
struct HeadMatrixTiles {
  std::uint32_t rows = 128, columns = 128;
  std::uint32_t sub_rows = 64, sub_columns = 64;
  std::uint32_t steps = 32, stages = 3;

  std::uint32_t subgroups() const { return rows / sub_rows * (columns / sub_columns); }
};

// The tiles for a device. Two work-groups fit the local memory of a compute unit.
HeadMatrixTiles head_matrix_tiles(const Device& device);

const char* head_loss_matrix_refusal(const Context& context, const HeadLoss& head);
// The kernel for the loss alone has a separate self-test.
bool head_loss_matrix_passed(Context& context, const HeadLoss& head);
// By chunks of the vocabulary.
void record_head_loss_matrix(Batch& batch, const HeadLoss& head);
// The same with a unit and tiles of the caller, for tests.
void record_head_loss_matrix_with(Batch& batch, const HeadLoss& head, MatrixUnitChoice unit,
                                  const HeadMatrixTiles& tiles);

}  // namespace clora
