// The chunks of the vocabulary in the head's loss on Hopper. cross_entropy_head_test.cpp checks the
// results on devices with these matrix units.
#include "ops/loss/cross_entropy_head_ends.hpp"

#include <gtest/gtest.h>

namespace clora {
namespace {

TEST(HeadChunks, LeaveLittleOfTheGpuIdleAndFillTheirShare) {
  constexpr std::int64_t kUnits = 132;                   // of an H200
  EXPECT_EQ(head_chunk_tiles(64, 594, 75, kUnits), 66);  // 9 chunks of 32 full rounds
  EXPECT_EQ(head_chunk_tiles(1, 10, 10, kUnits), 10);    // a single chunk if it fits
  for (const std::int64_t row_tiles : {1, 7, 32, 100}) {
    const std::int64_t each = head_chunk_tiles(row_tiles, 594, 80, kUnits);
    EXPECT_LE(each, 80) << row_tiles;
    EXPECT_GT(each, 40) << row_tiles;
  }
}

}  // namespace
}  // namespace clora
