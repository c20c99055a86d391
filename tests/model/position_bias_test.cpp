#include "model/transformer/position_bias.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace clora {
namespace {

// Where the bucket of MPNetEncoder.relative_position_bucket() of transformers 5.24.0 changes, for
// distances from 0 to 200 before the row; those after it are in buckets 16 above.
TEST(PositionBias, HasTheBucketsOfTransformers) {
  const PositionBiasSpec spec{.buckets = 32};
  std::vector<std::int64_t> changes;
  for (std::int64_t n = 1; n <= 200; ++n) {
    const std::int64_t bucket = bucket_of(-n, spec);
    EXPECT_EQ(bucket_of(n, spec), bucket + 16) << n;
    if (bucket != bucket_of(1 - n, spec)) {
      changes.push_back(n);
      EXPECT_EQ(bucket, std::ssize(changes));
    }
  }
  EXPECT_EQ(bucket_of(0, spec), 0);
  EXPECT_THAT(changes, testing::ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91));
}

// Two heads, whose tables count up from 0 and from 100.
TEST(PositionBias, IsATableByDistanceForEachHead) {
  const PositionBiasSpec spec{.buckets = 32};
  std::vector<float> table;
  for (int bucket = 0; bucket < 32; ++bucket) {
    table.push_back(static_cast<float>(bucket));
    table.push_back(static_cast<float>(100 + bucket));
  }
  EXPECT_THAT(bias_by_distance(table, spec, 2, 3),
              testing::ElementsAre(2, 1, 0, 17, 18, 102, 101, 100, 117, 118));
}

}  // namespace
}  // namespace clora
