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
  std::uint32_t buffers = 2;  // of operands in registers
  std::uint32_t resident = 1;  // work-groups that a compute unit runs at once
  double speed = 1;            // of a full GPU, relative to the fastest tile

  std::uint32_t sub_groups() const { return rows / sub_rows * (columns / sub_columns); }
  // Local memory, with `shrink` columns of a.
  std::uint32_t local_bytes(std::uint32_t shrink) const;
  bool operator==(const GemmMatrixTile&) const = default;
};
std::span<const GemmMatrixTile> gemm_matrix_tiles();

// The sizes that decide the tiling of a product.
struct GemmMatrixSize {
  std::uint32_t rows = 0;
  std::array<std::uint32_t, 3> columns{};  // of each output
  std::uint32_t units = 0;                 // of the GPU
  std::uint32_t shrink = 0;                // columns of a in a tile: 0, or a multiple of 16
  std::uint32_t k = 0;                     // of all problems that are summed
  bool may_split = false;                  // K
};

struct GemmMatrixTiles {
  GemmMatrixTile tile;
  std::uint32_t shrink = 0;
  std::uint32_t count = 0;   // of all problems
  std::uint32_t slices = 1;  // of a tile's K extent
  double cost = 0;           // of the product, in K steps of an element of y by one compute unit
};
// The tile and the number of slices with the least cost: waves of work-groups times a wave's time.
GemmMatrixTiles choose_gemm_matrix_tiles(const GemmMatrixSize& size);

// Tiles of `tile` that cover all outputs.
std::uint32_t gemm_matrix_tile_count(const GemmMatrixTile& tile, std::uint32_t rows,
                                     std::span<const std::uint32_t> columns);

}  // namespace clora
