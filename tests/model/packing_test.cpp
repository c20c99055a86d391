#include "clora/model/data/packing.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/test_files.hpp"

namespace clora {
namespace {

using Row = std::vector<std::int32_t>;

Record record(Row ids, std::vector<std::uint8_t> is_target) {
  return {std::move(ids), std::move(is_target)};
}

TEST(Packing, LaysDocumentsOneAfterAnotherAndFillsTheRest) {
  const std::vector<Record> records = {record({7, 8, 9}, {0, 1, 0}), record({4, 5}, {0, 1})};
  const PackedRows packed = pack_rows(records, 7);
  EXPECT_EQ(packed.ids, (Row{7, 8, 9, 4, 5, 0, 0}));
  EXPECT_EQ(packed.targets, (Row{8, -1, -1, 5, -1, -1, -1}));
  EXPECT_EQ(packed.positions, (Row{0, 1, 2, 0, 1, 0, 0}));
  EXPECT_EQ(packed.first, (Row{0, 0, 0, 3, 3, 5, 6}));
  EXPECT_EQ(packed.last, (Row{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(packed.target_count, 2);
  EXPECT_EQ(packed.rows(), 7u);
}

TEST(Packing, NeverTakesTheFirstTokenOfTheNextDocumentAsATarget) {
  // The first token is no target even if it is marked by mistake.
  const std::vector<Record> records = {record({1, 2}, {1, 1}), record({3}, {1})};
  const PackedRows packed = pack_rows(records, 3);
  EXPECT_EQ(packed.targets, (Row{2, -1, -1}));
  EXPECT_EQ(packed.target_count, 1);
}

TEST(Packing, FillsAllRowsExactly) {
  const std::vector<Record> records = {record({1, 2, 3}, {0, 1, 1})};
  EXPECT_EQ(pack_rows(records, 3).ids, (Row{1, 2, 3}));
}

TEST(Packing, PacksNothingIntoPaddingRows) {
  const PackedRows packed = pack_rows(std::span<const Record>(), 2);
  EXPECT_EQ(packed.targets, (Row{-1, -1}));
  EXPECT_EQ(packed.first, (Row{0, 1}));
}

TEST(Packing, TakesViewsOfRecordsInAnyOrder) {
  const Record a = record({1}, {0}), b = record({2}, {0});
  const std::vector<RecordView> order = {b, a, b};
  EXPECT_EQ(pack_rows(order, 3).ids, (Row{2, 1, 2}));
}

TEST(Packing, CountsLabelledRowsAndTheMostThatOneAttendsTo) {
  const std::vector<Record> records = {record({1, 2, 3}, {0, 1, 1}), record({4}, {0})};
  const PackedRows packed = pack_rows(records, 6);
  const WantedRows wanted = wanted_rows(packed);
  EXPECT_EQ(wanted.rows, 6U);
  EXPECT_EQ(wanted.labelled, 2U);
  EXPECT_DOUBLE_EQ(wanted.attended, (1.0 + 2 + 3 + 1 + 1 + 1) / 6);
  EXPECT_EQ(wanted_rows({}).attended, 0);
}

TEST(Packing, GivesTheRowsOfARecordItsWeight) {
  std::vector<Record> records = {record({7, 8, 9}, {0, 1, 1}), record({4, 5}, {0, 1})};
  EXPECT_TRUE(pack_rows(records, 6).weights.empty());
  EXPECT_EQ(pack_rows(records, 6).target_weight(), 3);
  records[1].weight = 2.5F;
  const PackedRows packed = pack_rows(records, 6);
  EXPECT_EQ(packed.weights, (std::vector<float>{1, 1, 1, 2.5F, 2.5F, 0}));
  EXPECT_EQ(packed.target_weight(), 4.5);
  EXPECT_EQ(packed.target_count, 3);
  for (const float weight : {0.0F, -1.0F, std::numeric_limits<float>::infinity()}) {
    records[1].weight = weight;
    CLORA_EXPECT_ERROR(pack_rows(records, 6), ErrorCode::invalid_argument,
                       "the weight of a record must be finite and above 0");
  }
}

TEST(Packing, RefusesWhatDoesNotFit) {
  const std::vector<Record> records = {record({1, 2, 3}, {0, 1, 1}), record({1}, {0})};
  CLORA_EXPECT_ERROR(pack_rows(records, 3), ErrorCode::invalid_argument,
                     "2 records of 4 tokens together do not fit into 3 rows");
  const std::vector<Record> empty = {record({}, {})};
  CLORA_EXPECT_ERROR(pack_rows(empty, 3), ErrorCode::invalid_argument, "ids");
  const std::vector<Record> unmarked = {record({1, 2}, {0})};
  CLORA_EXPECT_ERROR(pack_rows(unmarked, 3), ErrorCode::invalid_argument, "got 2 ids and 1 marks");
}

}  // namespace
}  // namespace clora
