#include "clora/model/data/record_store.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/owned_records.hpp"
#include "tests/support/peak_memory.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

Record record_of(std::size_t i) {
  Record record;
  record.weight = static_cast<float>(1 + i % 5);
  for (std::size_t t = 0; t < 1 + i % 13; ++t) {
    record.ids.push_back(static_cast<std::int32_t>(i * 100 + t));
    record.is_target.push_back(static_cast<std::uint8_t>((i + t) % 2));
  }
  return record;
}

void expect_record(const RecordStore& store, std::size_t i) {
  const Record got = test::owned(store[i]), want = record_of(i);
  EXPECT_EQ(got.ids, want.ids) << "record " << i;
  EXPECT_EQ(got.is_target, want.is_target) << "record " << i;
  EXPECT_EQ(got.weight, want.weight) << "record " << i;
  EXPECT_EQ(store.length(i), want.ids.size());
}

RecordStore filled(std::size_t count, const RecordStoreLimits& limits) {
  RecordStore store(limits);
  for (std::size_t i = 0; i < count; ++i) store.push_back(record_of(i));
  return store;
}

TEST(RecordStore, GivesTheRecordsBackFromMemoryAndFromAFile) {
  constexpr std::size_t kCount = 20'000;
  for (const std::size_t limit : {std::size_t{0}, std::size_t{1} << 16U, std::size_t{1} << 30U}) {
    const RecordStore store = filled(kCount, {.max_resident_bytes = limit});
    EXPECT_EQ(store.is_spilled(), limit < store.bytes());
    ASSERT_EQ(store.size(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) expect_record(store, i * 7919 % kCount);
  }
}

TEST(RecordStore, MovesTheRecordsToAFileWhenTheyExceedTheLimit) {
  RecordStore store(RecordStoreLimits{.max_resident_bytes = 1000});
  std::size_t i = 0;
  for (; store.bytes() <= 1000; ++i) {
    EXPECT_FALSE(store.is_spilled());
    store.push_back(record_of(i));
  }
  EXPECT_TRUE(store.is_spilled());
  for (std::size_t k = 0; k < i; ++k) expect_record(store, k);
}

TEST(RecordStore, KeepsAViewValidWhileOthersAreRead) {
  const RecordStore store = filled(500, {.max_resident_bytes = 0});
  const RecordView view = store[3];
  for (std::size_t i = 0; i < store.size(); ++i) (void)store[i];
  EXPECT_EQ(test::owned(view).ids, record_of(3).ids);
}

TEST(RecordStore, KeepsLittleOfItsFileInMemory) {
  const auto before = test::peak_mebibytes();
  if (!before) GTEST_SKIP() << "memory cannot be measured here";
  RecordStore store(RecordStoreLimits{.max_resident_bytes = std::size_t{1} << 20U});
  Record record;
  for (std::int32_t t = 0; t < 1000; ++t) {
    record.ids.push_back(t);
    record.is_target.push_back(1);
  }
  for (; store.bytes() < std::size_t{100} << 20U; ++record.ids[0]) store.push_back(record);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < store.size(); ++i) sum += store[i * 7919 % store.size()].ids[0];
  const auto count = static_cast<std::int64_t>(store.size());
  EXPECT_EQ(sum, count * (count - 1) / 2);
  EXPECT_LT(*test::peak_mebibytes() - *before, 12);
}

TEST(RecordStore, LeavesNoFileBehind) {
  const test::TemporaryFolder folder;
  const RecordStore store = filled(100, {.max_resident_bytes = 10, .spill_folder = folder.path()});
  EXPECT_TRUE(store.is_spilled());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RecordStore, NamesTheFolderThatCannotHoldItsFile) {
  const test::TemporaryFolder folder;
  CLORA_EXPECT_ERROR(filled(100, {.max_resident_bytes = 10, .spill_folder = folder / "none"}),
                     ErrorCode::io, "none' cannot be created: No such file or directory");
}

TEST(RecordStore, IsCopiedRecordByRecord) {
  const RecordStore store = filled(50, {.max_resident_bytes = 100});
  const RecordStore copy = store;
  EXPECT_EQ(copy.size(), 50u);
  for (std::size_t i = 0; i < 50; ++i) expect_record(copy, i);
}

TEST(RecordStore, RefusesARecordWithoutAMarkForEachId) {
  RecordStore store;
  CLORA_EXPECT_ERROR(store.push_back(Record{{1, 2}, {0}}), ErrorCode::invalid_argument,
                     "got 2 ids and 1 marks");
  EXPECT_TRUE(store.empty());
}

}  // namespace
}  // namespace clora
