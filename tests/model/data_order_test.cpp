#include "clora/model/data/data_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/test_files.hpp"

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

TEST(DataOrder, VisitsTheRecordsOfADataSetAsOftenAsItsWeightSays) {
  DataOrder order({{.records = 10, .weight = 2}, {.records = 100, .weight = 0.25}}, 4, 1, true, 3);
  EXPECT_EQ(order.visits_per_epoch(), 45U);
  std::vector<std::size_t> drawn_before;
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::size_t> visits(110), drawn;
    for (const std::size_t i : epoch_of(order, epoch)) ++visits[i];
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(visits[i], 2U) << "record " << i;
    for (std::size_t i = 10; i < 110; ++i) {
      EXPECT_LE(visits[i], 1U) << "record " << i;
      if (visits[i] == 1) drawn.push_back(i);
    }
    EXPECT_EQ(drawn.size(), 25U);
    EXPECT_NE(drawn, drawn_before) << "each epoch draws others";
    drawn_before = drawn;
  }
}

TEST(DataOrder, DrawsEveryRecordOfAFractionEquallyOften) {
  DataOrder order({{.records = 3}, {.records = 20, .weight = 1.5}}, 1, 1, false, 7);
  std::vector<std::size_t> visits(23);
  constexpr std::size_t kEpochs = 2000;
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (const std::size_t i : epoch_of(order, epoch)) ++visits[i];
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(visits[i], kEpochs);
  // The standard deviation of each is sqrt(2000 / 4) = 22.
  for (std::size_t i = 3; i < 23; ++i) EXPECT_NEAR(static_cast<double>(visits[i]), 3000, 110);
}

TEST(DataOrder, WithWeightsGivesTheSameStepWhateverWasRequestedBefore) {
  const std::vector<DataShare> shares{{.records = 9, .weight = 0.5}, {.records = 4, .weight = 1.5}};
  DataOrder used(shares, 3, 1, true, 9);
  for (std::size_t step = 0; step < 50; ++step) (void)used.micro_batches(step);
  DataOrder fresh(shares, 3, 1, true, 9);
  EXPECT_EQ(fresh.micro_batches(17), used.micro_batches(17));
}

TEST(DataOrder, OfSeveralDataSetsOfWeightOneIsThatOfOne) {
  DataOrder parts({{.records = 20}, {.records = 0}, {.records = 31}}, 4, 1, true, 5);
  DataOrder one(51, 4, 1, true, 5);
  EXPECT_EQ(epoch_of(parts, 2), epoch_of(one, 2));
}

TEST(DataOrder, KeepsTheOrderOfTheFilesWithoutShuffling) {
  DataOrder order({{.records = 2, .weight = 2}, {.records = 2}}, 2, 1, false, 0);
  EXPECT_THAT(epoch_of(order, 0), testing::ElementsAre(0, 1, 0, 1, 2, 3));
  EXPECT_TRUE(order.repeats());
  EXPECT_FALSE(DataOrder({{.records = 4, .weight = 0.5}}, 2, 1, false, 0).repeats());
}

TEST(DataOrder, RefusesWeightsThatVisitNothing) {
  CLORA_EXPECT_ERROR(DataOrder({{.records = 4, .weight = 0}}, 1, 1, true, 0),
                     ErrorCode::invalid_argument, "an epoch must visit from 1 to");
  CLORA_EXPECT_ERROR(DataOrder({{.records = 4, .weight = -1}}, 1, 1, true, 0),
                     ErrorCode::invalid_argument, "must be finite and not negative, got -1");
  CLORA_EXPECT_ERROR(DataOrder({{.records = 4, .weight = 1e300}}, 1, 1, true, 0),
                     ErrorCode::invalid_argument, "an epoch must visit from 1 to");
}

}  // namespace
}  // namespace clora
