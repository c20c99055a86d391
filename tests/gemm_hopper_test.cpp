// How products are cut for Hopper's matrix units. That they are right is in gemm_test.cpp, where
// the device has them.
#include "ops/gemm_hopper.hpp"

#include <gtest/gtest.h>

namespace clora {
namespace {

constexpr std::uint32_t kUnits = 132;  // of an H200

TEST(WgmmaTiles, TheWidthIsTheOneThatLeavesLeastOfTheCardIdle) {
  EXPECT_EQ(wgmma_tiles(8192, 896, kUnits).columns, 224U);   // four columns of tiles, two rounds
  EXPECT_EQ(wgmma_tiles(8192, 8192, kUnits).columns, 256U);  // wide tiles where there are many
  EXPECT_EQ(wgmma_tiles(1024, 16, kUnits).columns, 64U);     // and the narrowest for an adapter
}

TEST(WgmmaTiles, TheRingIsAsLongAsSharedMemoryAllows) {
  for (const std::uint32_t columns : {16U, 896U, 4096U, 8192U}) {
    const WgmmaTiles tiles = wgmma_tiles(8192, columns, kUnits);
    const std::uint32_t stage_bytes = 128 * (128 + (tiles.columns + 63) / 64 * 64);
    EXPECT_LE(tiles.stages * stage_bytes, 227U << 10U);
    EXPECT_GT((tiles.stages + 1) * stage_bytes, 226U << 10U);
    EXPECT_GE(tiles.stages, 4U);
  }
}

}  // namespace
}  // namespace clora
