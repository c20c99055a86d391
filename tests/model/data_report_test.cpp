#include "clora/model/data/data_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_files.hpp"
#include "tests/support/tiny_tokenizers.hpp"

namespace clora {
namespace {

using Ids = std::vector<std::int32_t>;
using Marks = std::vector<std::uint8_t>;

DataReport report_of(const std::vector<Ids>& records) {
  DataReport report;
  for (const Ids& ids : records) {
    const Marks marks(ids.size(), 1);
    add(report, {.ids = ids, .is_target = marks});
  }
  return report;
}

DataReport of_lengths(const std::vector<std::size_t>& lengths) {
  std::vector<Ids> records;
  for (const std::size_t length : lengths) records.emplace_back(length);
  return report_of(records);
}

TEST(DataReport, CountsFormsTokensAndWhatIsTrained) {
  DataReport report;
  const Ids ids{1, 2, 3, 4};
  const Marks marks{0, 1, 1}, none{0, 0};
  add(report, {.form = RecordForm::messages, .ids = ids, .is_target = marks, .is_cut = true});
  add(report, {.form = RecordForm::text, .ids = ids, .is_target = none, .is_skipped = true});
  EXPECT_EQ(report.records, 2u);
  EXPECT_EQ(report.by_form[static_cast<std::size_t>(RecordForm::messages)], 1u);
  EXPECT_EQ(report.by_form[static_cast<std::size_t>(RecordForm::text)], 1u);
  EXPECT_EQ(report.tokens, 8u);
  EXPECT_EQ(report.kept_tokens, 3u);
  EXPECT_EQ(report.trained_tokens, 2u);
  EXPECT_EQ(report.cut, 1u);
  EXPECT_EQ(report.skipped, 1u);
}

TEST(DataReport, CountsNoTrainedTokensOfTextPairs) {
  DataReport report;
  const Ids ids{1, 2};
  const Marks marks{1, 1};
  add(report, {.form = RecordForm::text_pair, .ids = ids, .is_target = marks});
  EXPECT_EQ(report.trained_tokens, 0u);
  EXPECT_EQ(report.kept_tokens, 2u);
}

TEST(DataReport, HasQuantilesOfLengths) {
  const DataReport report = of_lengths({1, 2, 3, 4, 5, 6, 7, 8, 9, 100});
  EXPECT_EQ(length_quantile(report, 0.5), 5u);
  EXPECT_EQ(length_quantile(report, 0.9), 9u);
  EXPECT_EQ(length_quantile(report, 0.95), 100u);
  EXPECT_EQ(length_quantile(report, 1e-9), 1u);
  EXPECT_EQ(length_quantile(DataReport(), 0.5), 0u);
}

TEST(DataReport, HasBinsUpToThePowersOfTwo) {
  std::vector<std::array<std::size_t, 3>> bins;
  for (const LengthBin& bin : length_histogram(of_lengths({3, 4, 4, 5, 8, 40}))) {
    bins.push_back({bin.low, bin.high, bin.records});
  }
  using Bin = std::array<std::size_t, 3>;
  EXPECT_THAT(bins, testing::ElementsAre(Bin{3, 4, 3}, Bin{5, 8, 2}, Bin{9, 16, 0}, Bin{17, 32, 0},
                                         Bin{33, 64, 1}));
  EXPECT_TRUE(length_histogram(DataReport()).empty());
  EXPECT_EQ(length_histogram(of_lengths({1})).front().low, 1u);
}

TEST(DataReport, FindsRecordsThatRepeatAnEarlierOne) {
  const Duplicates found = duplicates_within(report_of({{1}, {2, 3}, {4}, {2, 3}, {2, 3}, {3, 2}}));
  EXPECT_EQ(found.records, 2u);
  EXPECT_EQ(found.first, 2u);
  EXPECT_EQ(found.second, 4u);
  EXPECT_EQ(duplicates_within(report_of({{1}, {2}})).records, 0u);
  EXPECT_EQ(duplicates_within(report_of({{1}, {2}})).first, 0u);
}

TEST(DataReport, FindsRecordsOfOneSetInAnother) {
  const Duplicates found =
      duplicates_between(report_of({{1}, {5, 6}}), report_of({{7}, {8}, {5, 6}, {5, 6}}));
  EXPECT_EQ(found.records, 2u);
  EXPECT_EQ(found.first, 2u);
  EXPECT_EQ(found.second, 3u);
}

TEST(DataReport, IsFilledWhileRecordsAreRead) {
  const test::TemporaryFolder folder;
  test::write_file(
      folder / "data.jsonl",
      "{\"text\": \"abcd\"}\n{\"prompt\": \"xyzxyz\", \"completion\": \"b<|im_end|>\"}\n"
      "{\"text\": \"abcd\"}\n");
  const Tokenizer tokenizer(test::byte_level_spec());
  DataReport report;
  const Records records = load_records(folder / "data.jsonl", tokenizer, nullptr,
                                       {.max_seq_length = 2, .report = &report});
  EXPECT_EQ(report.records, 3u);
  EXPECT_EQ(report.by_form[static_cast<std::size_t>(RecordForm::prompt)], 1u);
  EXPECT_EQ(report.cut, 3u);
  EXPECT_EQ(report.skipped, 1u);
  EXPECT_EQ(report.with_special, 1u);
  EXPECT_EQ(report.tokens, 3u + 18u + 3u) << "before they are truncated";
  EXPECT_EQ(report.trained_tokens, records.target_count());
  EXPECT_EQ(duplicates_within(report).second, 3u);
}

}  // namespace
}  // namespace clora
