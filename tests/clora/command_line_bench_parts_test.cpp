// The parts of clora bench: reading results, verdicts, and the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "clora/runtime/error.hpp"
#include "tests/support/bench_results_by_hand.hpp"
#include "tools/clora/bench/bench_table.hpp"
#include "tools/clora/bench/bench_verdict.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::file_of;
using test::parsed;
using test::repetition;
using test::run_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(BenchName, OmitsTheSuffixesOfTheTiming) {
  EXPECT_EQ(bench_name("softmax/fused/f32/64x1024/warm/manual_time"),
            "softmax/fused/f32/64x1024/warm");
  EXPECT_EQ(bench_name("launch/replay/iterations:1/manual_time"), "launch/replay");
  EXPECT_EQ(bench_name("a/fused/f32/1/min_time:0.150/process_time/real_time"), "a/fused/f32/1");
  EXPECT_EQ(bench_name("plain"), "plain");
}

TEST(BenchResults, HoldTheRepetitionsOfEachBenchAndTheRowsOfAnOpTogether) {
  json mean = repetition("softmax/fused/f32/2", 15);
  mean["run_type"] = "aggregate";
  const BenchResults results = parsed(
      file_of({repetition("softmax/fused/f32/2", 30, 40), repetition("gemm/library/f32/3", 7),
               repetition("softmax/fused/f32/2", 10, 60), repetition("softmax/fused/f32/2", 20, 50),
               mean, repetition("softmax/unfused/f32/2", 40)}));
  ASSERT_THAT(results.rows, SizeIs(3));
  const BenchRow& row = results.rows[0];
  EXPECT_EQ(row.name, "softmax/fused/f32/2");
  EXPECT_EQ(row.form, "fused");
  EXPECT_EQ(row.rest, "fused/f32/2");
  EXPECT_THAT(row.samples, ElementsAre(30, 10, 20));
  EXPECT_EQ(row.typical_us(), 20);
  EXPECT_EQ(row.best_us, 10);
  EXPECT_EQ(row.percent_of_roofline, 60);
  EXPECT_EQ(row.typical(row.percent_of_roofline), 30);
  EXPECT_EQ(row.spread(), 0.5);
  EXPECT_EQ(results.rows[1].name, "softmax/unfused/f32/2");
  EXPECT_EQ(results.rows[2].form, "library");
  EXPECT_EQ(results.number("peak_fma_gflops"), 200);
  EXPECT_EQ(results.number("num_cpus"), 2);
  EXPECT_EQ(results.fact("no such"), "");
}

TEST(BenchResults, UseGoogleBenchmarksTimeWithoutAMedian) {
  const BenchResults results = parsed(file_of({{{"name", "a/fused/f32/1/real_time"},
                                                {"run_type", "iteration"},
                                                {"real_time", 3.5},
                                                {"time_unit", "ms"}}}));
  EXPECT_EQ(results.rows.at(0).typical_us(), 3500);
}

TEST(BenchResults, KeepWhyABenchHasNoFigures) {
  const BenchResults results = parsed(file_of({{{"name", "a/fused/f32/1/manual_time"},
                                                {"run_type", "iteration"},
                                                {"error_occurred", true},
                                                {"error_message", "wrong result"}}}));
  EXPECT_EQ(results.rows.at(0).error, "wrong result");
  EXPECT_THAT(results.rows.at(0).samples, SizeIs(0));
  EXPECT_THAT(bench_table(results, {}), HasSubstr("fused/f32/1  wrong result"));
}

TEST(BenchResults, RefuseAllOtherFiles) {
  for (const char* text : {"", "{", "[]", "{\"context\": {}}", "{\"benchmarks\": []}"}) {
    try {
      parse_bench_results(text, "x.json");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_file);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'x.json'"), HasSubstr("clora bench --out")));
    }
  }
}

TEST(BenchTable, WritesTimesAndNumbersWithThreeDigits) {
  EXPECT_EQ(readable_time(0.0713), "0.071 us");
  EXPECT_EQ(readable_time(485.2), "485 us");
  EXPECT_EQ(readable_time(2277), "2.28 ms");
  EXPECT_EQ(readable_time(1942635), "1.94 s");
  EXPECT_EQ(readable_time(999.7), "1.00 ms");
  EXPECT_EQ(three_digits(0), "0");
  EXPECT_EQ(three_digits(12345), "12345");
}

TEST(BenchTable, DrawsBarsInEighthsOfABlock) {
  EXPECT_EQ(bar(0, 4), "    ");
  EXPECT_EQ(bar(50, 4), "██  ");
  EXPECT_EQ(bar(50 + 100.0 / 32, 4), "██▏ ");
  EXPECT_EQ(bar(100, 4), "████");
  EXPECT_EQ(bar(450, 4), "████");
}

TEST(BenchTable, ShowsEachOpOnceWithItsRowsAndShares) {
  const std::string table = bench_table(
      parsed(file_of({repetition("a/fused/f32/1", 5, 50), repetition("a/unfused/f32/1", 10, 25),
                      repetition("b/fused/f32/1", 2000)})),
      {});
  EXPECT_THAT(table, HasSubstr("\na\n  fused/f32/1     5.00 us            100    10.0  █████  "
                               "      50%\n  unfused/f32/1"));
  EXPECT_THAT(table, HasSubstr("\nb\n  fused/f32/1     2.00 ms\n"));
}

TEST(StudentT, EqualsPublishedQuantiles) {
  EXPECT_NEAR(student_t(0.95, 1), 12.7062, 1e-3);
  EXPECT_NEAR(student_t(0.95, 4), 2.77645, 1e-4);
  EXPECT_NEAR(student_t(0.99, 2), 9.92484, 1e-3);
  EXPECT_NEAR(student_t(0.99, 2.5), 7.16373, 1e-3);
  EXPECT_NEAR(student_t(0.99, 8), 3.35539, 1e-4);
  EXPECT_NEAR(student_t(0.5, 3), 0.764892, 1e-4);
}

// The expected values are from another implementation of Welch's interval on the logarithms.
TEST(RatioInterval, IsWelchsOfTheLogarithms) {
  const std::vector<double> before{100, 102, 98, 101, 99};
  const RatioInterval faster = ratio_interval(before, std::vector<double>{90, 93, 88, 91, 89});
  EXPECT_NEAR(faster.ratio, 0.901927, 1e-5);
  EXPECT_NEAR(faster.low, 0.865938, 1e-5);
  EXPECT_NEAR(faster.high, 0.939411, 1e-5);
  const RatioInterval slower = ratio_interval(before, std::vector<double>{120, 123, 118, 126, 119});
  EXPECT_NEAR(slower.low, 1.152587, 1e-5);
  EXPECT_NEAR(slower.high, 1.273994, 1e-5);
}

Verdict verdict_on(const std::vector<double>& before, const std::vector<double>& after) {
  const auto comparisons =
      compare(parsed(run_of("a/fused/f32/1", before)), parsed(run_of("a/fused/f32/1", after)));
  EXPECT_THAT(comparisons, SizeIs(1));
  return comparisons.at(0).verdict;
}

TEST(Verdict, IsGivenIfTheIntervalExcludesOne) {
  const std::vector<double> before{100, 102, 98, 101, 99};
  EXPECT_EQ(verdict_on(before, {90, 93, 88, 91, 89}), Verdict::faster);
  EXPECT_EQ(verdict_on(before, {120, 123, 118, 126, 119}), Verdict::slower);
  EXPECT_EQ(verdict_on(before, {101, 104, 97, 100, 103}), Verdict::no_difference);
  EXPECT_EQ(verdict_on({101, 104, 97, 100, 103}, before), Verdict::no_difference);
  EXPECT_EQ(verdict_on(before, before), Verdict::no_difference);
}

TEST(Verdict, NeedsMoreThanALargeRatioOfScatteredSamples) {
  EXPECT_EQ(verdict_on({10, 11, 10.5}, {12, 20}), Verdict::no_difference);
  EXPECT_EQ(verdict_on({100}, {200}), Verdict::too_few);
  EXPECT_EQ(verdict_on({100, 101}, {200}), Verdict::too_few);
}

TEST(Verdict, IsGivenForSamplesWithoutAnyScatter) {
  EXPECT_EQ(verdict_on({100, 100}, {101, 101}), Verdict::slower);
  EXPECT_EQ(verdict_on({100, 100}, {100, 100}), Verdict::no_difference);
}

TEST(Verdict, IsForBenchesThatBothRunsHave) {
  const auto comparisons = compare(parsed(run_of("gone/fused/f32/1", {1, 2})),
                                   parsed(run_of("new/fused/f32/1", {1, 2})));
  EXPECT_THAT(comparisons, SizeIs(0));
}

TEST(BenchResults, ReadsTheKeysThatEarlierVersionsWrote) {
  json file = file_of({repetition("a/fused/f32/1", 5)});
  file["context"].erase("peak_fma_gflops");
  file["context"]["ceiling_fma_gflops"] = "150";
  file["benchmarks"][0]["percent_of_ceiling"] = 60;
  const BenchResults results = parsed(file);
  EXPECT_EQ(results.number("peak_fma_gflops"), 150);
  EXPECT_EQ(results.fact("ceiling_fma_gflops"), "");
  EXPECT_EQ(results.rows[0].percent_of_roofline, 60);
}

TEST(BenchResults, ReadsTheNamesThatEarlierVersionsWrote) {
  const BenchResults results =
      parsed(file_of({repetition("a/composed/f32/1", 5), repetition("composed/fused/f32/1", 5),
                      repetition("b_backward/fused/f32/1/again/bf16", 5)}));
  ASSERT_THAT(results.rows, SizeIs(3));
  EXPECT_EQ(results.rows[0].name, "a/unfused/f32/1");
  EXPECT_EQ(results.rows[0].form, "unfused");
  EXPECT_EQ(results.rows[1].name, "composed/fused/f32/1");
  EXPECT_EQ(results.rows[2].name, "b_backward/fused/f32/1/recompute/bf16");
}

TEST(Verdict, ReadsAsASentence) {
  EXPECT_EQ(verdict_text({"a", Verdict::faster, {0.9, 0.85, 0.95}}), "10.0 % faster (5.0 to 15.0)");
  EXPECT_EQ(verdict_text({"a", Verdict::slower, {1.2, 1.1, 1.3}}), "20.0 % slower (10.0 to 30.0)");
  EXPECT_EQ(verdict_text({"a", Verdict::no_difference, {1, 0.99, 1.02}}),
            "no difference (-1.0 to +2.0 %)");
  EXPECT_EQ(verdict_text({"a", Verdict::too_few, {1.5, 0, 0}}),
            "+50.0 %, too few repetitions for a verdict");
}

TEST(MachineChange, ReportsAnotherDeviceAndPeaksThatChanged) {
  json before = file_of({}), after = file_of({});
  EXPECT_THAT(machine_change(parsed(before), parsed(after)), SizeIs(0));
  after["context"]["device"] = "another";
  after["context"]["peak_fma_gflops"] = "180";
  after["context"]["peak_copy_gbps"] = "20.5";  // differs by less than 5 %
  EXPECT_THAT(machine_change(parsed(before), parsed(after)),
              ElementsAre("the device was 'a <fast> & small device' and is now 'another'",
                          "the machine's f32 peak is 0.90 times its earlier value"));
}

}  // namespace
}  // namespace clora
