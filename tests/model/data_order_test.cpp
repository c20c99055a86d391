#include "clora/model/data/data_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace clora {
namespace {

std::vector<std::size_t> epoch_of(DataOrder& order, std::size_t epoch) {
  std::vector<std::size_t> seen;
  for (std::size_t s = 0; s < order.steps_per_epoch(); ++s) {
    for (const auto& batch : order.micro_batches(epoch * order.steps_per_epoch() + s)) {
      seen.insert(seen.end(), batch.begin(), batch.end());
    }
  }
  return seen;
}

TEST(DataOrder, KeepsTheFilesOrderWithoutShuffling) {
  DataOrder order(5, 2, 1, false, 0);
  EXPECT_EQ(order.steps_per_epoch(), 3U);
  EXPECT_THAT(epoch_of(order, 0), testing::ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(epoch_of(order, 7), testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(DataOrder, VisitsEveryRecordOnceAnEpochInAnotherOrderEachTime) {
  DataOrder order(101, 4, 1, true, 3);
  std::vector<std::size_t> first = epoch_of(order, 0);
  std::vector<std::size_t> second = epoch_of(order, 1);
  EXPECT_NE(first, second);
  for (auto* epoch : {&first, &second}) {
    std::ranges::sort(*epoch);
    for (std::size_t i = 0; i < 101; ++i) ASSERT_EQ((*epoch)[i], i);
  }
}

TEST(DataOrder, KeepsTheLastPartialBatch) {
  DataOrder order(5, 2, 2, false, 0);
  EXPECT_EQ(order.steps_per_epoch(), 2U);
  EXPECT_THAT(order.micro_batches(1), testing::ElementsAre(testing::ElementsAre(4)));
}

TEST(DataOrder, GivesTheSameStepWhateverWasRequestedBefore) {
  DataOrder used(50, 3, 1, true, 9);
  epoch_of(used, 0);
  DataOrder fresh(50, 3, 1, true, 9);
  EXPECT_EQ(used.micro_batches(40), fresh.micro_batches(40));
}

TEST(DataOrder, DependsOnTheSeed) {
  DataOrder one(50, 50, 1, true, 1);
  DataOrder two(50, 50, 1, true, 2);
  EXPECT_NE(one.micro_batches(0), two.micro_batches(0));
}

}  // namespace
}  // namespace clora
