// How products are cut for Hopper's matrix units. That they are right is in gemm_test.cpp, where
// the device has them.
#include "ops/gemm_hopper.hpp"

#include <gtest/gtest.h>

#include "ops/lora_gradient.hpp"

namespace clora {
namespace {

constexpr std::uint32_t kUnits = 132;  // of an H200

TEST(WgmmaTiles, TheWidthIsTheOneThatLeavesLeastOfTheCardIdle) {
  const auto width = [](std::uint32_t rows, std::uint32_t columns, std::uint32_t shrink = 0) {
    return wgmma_tiles({rows, {columns}, kUnits, shrink}).width();
  };
  EXPECT_EQ(width(8192, 896), 224U);       // four columns of tiles, two rounds
  EXPECT_EQ(width(8192, 8192), 256U);      // wide tiles where there are many
  EXPECT_EQ(width(1024, 16), 64U);         // and the narrowest for an adapter,
  EXPECT_EQ(width(8192, 128), 128U);       // but one column of tiles where that is enough
  EXPECT_EQ(width(8192, 896, 16), 240U);   // which may be made beside w's columns
  EXPECT_EQ(width(8192, 8192, 64), 256U);  // and never makes a product too wide
}

TEST(WgmmaTiles, TheRingIsAsLongAsSharedMemoryAllows) {
  for (const std::uint32_t columns : {16U, 896U, 4096U, 8192U}) {
    for (const bool whole_boxes : {false, true}) {
      for (const bool stages_y : {false, true}) {
        const WgmmaTiles tiles = wgmma_tiles({8192, {columns}, kUnits, 0, whole_boxes, stages_y});
        const std::uint32_t held = whole_boxes ? (tiles.columns + 63) / 64 * 64 : tiles.columns;
        const std::uint32_t stage = 128 * (128 + held);
        const std::uint32_t staged = stages_y ? 128 * 2 * (tiles.columns / 64 * 64) : 0;
        EXPECT_LE(tiles.stages * stage + staged, 227U << 10U);
        EXPECT_GT((tiles.stages + 1) * stage + staged, 226U << 10U);
        EXPECT_GE(tiles.stages, 3U);
      }
    }
  }
}

TEST(LoraChunks, GiveTheCardAboutAsManyGroupsAsItHasUnits) {
  for (const std::uint32_t strips : {1U, 2U, 10U, 37U, 200U}) {
    for (const std::uint32_t rows : {1U, 700U, 8192U}) {
      const LoraChunks cut = lora_chunks(rows, strips, 1, kUnits);
      const std::uint32_t boxes = (rows + 63) / 64;
      EXPECT_GE(cut.chunks * cut.chunk_boxes, boxes);            // all rows are there,
      EXPECT_LT((cut.chunks - 1) * cut.chunk_boxes, boxes);      // no chunk is empty,
      EXPECT_LE(cut.chunks * strips, std::max(kUnits, strips));  // and one round is enough
    }
  }
}

}  // namespace
}  // namespace clora
