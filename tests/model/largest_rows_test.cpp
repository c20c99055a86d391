#include "model/training/largest_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using test::some_records;

// The result of a search through every micro-batch.
LargestRows by_hand(const Records& records, DataOrder order, std::int64_t begin, std::int64_t end) {
  LargestRows largest;
  for (std::int64_t step = begin; step < end; ++step) {
    for (const auto& indices : order.micro_batches(static_cast<std::size_t>(step))) {
      std::size_t rows = 0, labelled = 0;
      for (const std::size_t i : indices) {
        rows += records.records[i].ids.size();
        labelled += records.records[i].ids.size() - 1;
      }
      if (rows > largest.rows) largest.records = indices;
      largest.rows = std::max(largest.rows, rows);
      largest.labelled = std::max(largest.labelled, labelled);
    }
  }
  return largest;
}

void expect_equal(const LargestRows& got, const LargestRows& want) {
  EXPECT_EQ(got.records, want.records);
  EXPECT_EQ(got.rows, want.rows);
  EXPECT_EQ(got.labelled, want.labelled);
}

TEST(LargestRows, AreThoseOfTheEntireRunIfItIsShort) {
  const Records records = some_records(22, 67);
  for (const bool shuffle : {false, true}) {
    DataOrder order(22, 4, 2, shuffle, 9);
    for (const std::int64_t begin : {0, 2, 13}) {
      SCOPED_TRACE(begin);
      expect_equal(find_largest_rows(records, order, begin, 40),
                   by_hand(records, order, begin, 40));
    }
    EXPECT_TRUE(find_largest_rows(records, order, 40, 40).records.empty());
  }
}

TEST(LargestRows, OfAVeryLongRunAreLookedForInItsFirstEpochs) {
  const Records records = some_records(22, 67);
  DataOrder shuffled(22, 4, 2, true, 9);
  // 22 records in an epoch of 3 steps: after 4 epochs, 88 records were visited.
  expect_equal(find_largest_rows(records, shuffled, 0, 1'000'000'000, {}, {}, 80),
               by_hand(records, shuffled, 0, 11));
  // At least one epoch.
  expect_equal(find_largest_rows(records, shuffled, 0, 1'000'000'000, {}, {}, 1),
               by_hand(records, shuffled, 0, 3));
  DataOrder ordered(22, 4, 2, false, 9);
  expect_equal(find_largest_rows(records, ordered, 0, 1'000'000'000),
               by_hand(records, ordered, 0, 3));
}

TEST(LargestRows, AreNoLongerSearchedForOnceCancelled) {
  const Records records = some_records(22, 67);
  DataOrder order(22, 4, 2, true, 9);
  int checks = 0;
  find_largest_rows(
      records, order, 0, 1'000'000'000, [&] { return ++checks == 3; }, {}, std::size_t{1} << 40U);
  EXPECT_EQ(checks, 3);
}

}  // namespace
}  // namespace clora
