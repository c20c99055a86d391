// cl/lora_linear/lora_gradient_matrix.cl: adapter gradients on a GPU's matrix unit
// (cl/matrix/matrix_unit.clh).
#pragma once

#include <cstdint>
#include <span>

#include "clora/ops/lora_linear/lora_gradient.hpp"
#include "ops/dispatch/matrix_unit_defines.hpp"

namespace clora {

inline constexpr std::string_view kLoraMatrix = "lora_gradient_matrix.cl";
inline constexpr std::size_t kMaxMatrixGradients = 16;  // per launch

// The tiles of a work-group, -D values of the kernel.
struct LoraGradientTiles {
  std::uint32_t ranks = 16;
  std::uint32_t strip = 256;
  std::uint32_t subgroups = 8;
  std::uint32_t stage_rows = 32;
};
// The tiles for a rank on a unit. Each is a separate program.
LoraGradientTiles lora_gradient_tiles(std::int64_t rank, MatrixUnit unit = MatrixUnit::mma);

// The kernels read tensors by their addresses, which other drivers than NVIDIA's may not allow.
const char* lora_gradient_matrix_refusal(const Context& context, const LoraGradientProduct& p);
// The outcome for the program of this rank.
bool lora_gradient_matrix_passed(Context& context, const LoraGradientProduct& p);
// One launch, which also computes `shrunk`. Casts f32 operands to bf16 first. REQUIRES: a matrix
// unit; at most kMaxMatrixGradients, of equal rows and ranks; equal scales among those with a
// shrink, and among those without; distinct `out`.
void record_gradients_matrix(Batch& batch, std::span<const LoraGradientProduct> problems);
// The same with a unit and tiles of the caller, for tests.
void record_gradients_matrix_with(Batch& batch, std::span<const LoraGradientProduct> problems,
                                  MatrixUnitChoice unit, const LoraGradientTiles& tiles);

// The split of the rows of x into chunks of `stages` stages.
struct LoraMatrixChunks {
  std::uint32_t chunks = 1;
  std::uint32_t stages = 1;
};
// As many work-groups as a GPU of so many compute units takes at a time, or slightly fewer; chunks
// of at least a few stages, since each chunk's partial sums are stored.
LoraMatrixChunks lora_matrix_chunks(std::uint32_t row_stages, std::uint32_t strips_and_blocks,
                                    std::uint32_t units);

}  // namespace clora
