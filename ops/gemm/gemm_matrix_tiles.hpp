// The tiling of products by cl/gemm/gemm_matrix.cl, and its choice.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace clora {

// A work-group's tile of y, and a sub-group's part of it; K steps are copied ahead in a ring of
// `stages` stages.
struct GemmMatrixTile {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t sub_rows = 0;
  std::uint32_t sub_columns = 0;
  std::uint32_t steps = 0;
  std::uint32_t stages = 0;
  std::uint32_t most_resident = 1;  // work-groups whose registers a compute unit has
  // Microseconds per 1000 K steps on an H100: of a tile if several share a compute unit, and of a
  // tile that is alone.
  double shared_time = 0;
  double alone_time = 0;

  std::uint32_t sub_groups() const { return rows / sub_rows * (columns / sub_columns); }
  // Local memory, with `shrink` columns of a.
  std::uint32_t local_bytes(std::uint32_t shrink) const;
};
std::span<const GemmMatrixTile> gemm_matrix_tiles();

// The GPU's part in the choice.
struct GemmMatrixUnits {
  std::uint32_t count = 1;
  std::uint32_t local_bytes = 0;   // of one, for all of its work-groups
  std::uint32_t most_sums = 4096;  // elements of y that a sub-group has registers for
};

// The sizes that decide the tiling of a product.
struct GemmMatrixSize {
  std::uint32_t rows = 0;
  std::array<std::uint32_t, 3> columns{};  // of each output
  std::uint32_t k = 0;                     // of all problems that are summed, with their ranks
  std::uint32_t shrink = 0;                // columns of a in a tile: 0, or a multiple of 16
  bool may_split = false;                  // K
};

struct GemmMatrixTiles {
  GemmMatrixTile tile;
  std::uint32_t shrink = 0;
  std::uint32_t count = 0;   // of all outputs
  std::uint32_t slices = 1;  // of a tile's K extent
  double time = 0;           // estimated microseconds on an H100, its memory aside
};
// The tile and the number of slices with the least time; without rows, and with the largest time,
// if no tile fits the local memory, which can happen only with a shrink.
GemmMatrixTiles choose_gemm_matrix_tiles(const GemmMatrixUnits& units, const GemmMatrixSize& size);

// Tiles of `tile` that cover all outputs.
std::uint32_t gemm_matrix_tile_count(const GemmMatrixTile& tile, const GemmMatrixSize& size);

}  // namespace clora
