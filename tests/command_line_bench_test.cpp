// clora bench and its parts on results written by hand: reading, verdicts, table, page, and the
// program around a clora_bench that measures nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <regex>

#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clora/bench_charts.hpp"
#include "tools/clora/bench_page.hpp"
#include "tools/clora/bench_program.hpp"
#include "tools/clora/bench_results.hpp"
#include "tools/clora/bench_table.hpp"
#include "tools/clora/bench_verdict.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::ProgramResult;
using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

json machine() {
  return {{"date", "2026-11-21T20:00:00+00:00"},
          {"num_cpus", 2},
          {"caches", json::array()},
          {"device", "a <fast> & small device"},
          {"platform", "a platform"},
          {"driver", "3.1"},
          {"commit", "0123456789ab"},
          {"ceiling_copy_gbps", "20"},
          {"ceiling_read_gbps", "18"},
          {"ceiling_fma_gflops", "200"},
          {"ceiling_launch_us", "0.8"},
          {"ceiling_wake_us", "20"}};
}

// A repetition of a bench as Google Benchmark writes it.
json repetition(const std::string& name, double median_us, double percent = 0) {
  json entry{{"name", name + "/manual_time"}, {"run_type", "iteration"},
             {"real_time", 2 * median_us},    {"time_unit", "us"},
             {"best_us", median_us},          {"median_us", median_us}};
  if (percent > 0) {
    entry["percent_of_ceiling"] = percent;
    entry["gflops"] = percent * 2;
    entry["gbps"] = percent / 5;
  }
  return entry;
}

json file_of(const std::vector<json>& entries) {
  return {{"context", machine()}, {"benchmarks", entries}};
}

// A run of one bench with these repetitions.
json run_of(const std::string& name, const std::vector<double>& samples) {
  std::vector<json> entries;
  for (const double us : samples) entries.push_back(repetition(name, us, 50));
  return file_of(entries);
}

BenchResults parsed(const json& file) { return parse_bench_results(file.dump(), "a test"); }

TEST(BenchName, IsWithoutWhatTellsOfTheTiming) {
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
               mean, repetition("softmax/composed/f32/2", 40)}));
  ASSERT_THAT(results.rows, SizeIs(3));
  const BenchRow& row = results.rows[0];
  EXPECT_EQ(row.name, "softmax/fused/f32/2");
  EXPECT_EQ(row.form, "fused");
  EXPECT_EQ(row.rest, "fused/f32/2");
  EXPECT_THAT(row.samples, ElementsAre(30, 10, 20));
  EXPECT_EQ(row.typical_us(), 20);
  EXPECT_EQ(row.best_us, 10);
  EXPECT_EQ(row.percent_of_ceiling, 60);
  EXPECT_EQ(row.typical(row.percent_of_ceiling), 30);
  EXPECT_EQ(row.spread(), 0.5);
  EXPECT_EQ(results.rows[1].name, "softmax/composed/f32/2");
  EXPECT_EQ(results.rows[2].form, "library");
  EXPECT_EQ(results.number("ceiling_fma_gflops"), 200);
  EXPECT_EQ(results.number("num_cpus"), 2);
  EXPECT_EQ(results.fact("no such"), "");
}

TEST(BenchResults, TakeGoogleBenchmarksTimeWhereThereIsNoMedian) {
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

TEST(BenchResults, RefuseWhatIsNoSuchFile) {
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
      parsed(file_of({repetition("a/fused/f32/1", 5, 50), repetition("a/composed/f32/1", 10, 25),
                      repetition("b/fused/f32/1", 2000)})),
      {});
  EXPECT_THAT(table, HasSubstr("\na\n  fused/f32/1      5.00 us            100    10.0  █████  "
                               "      50%\n  composed/f32/1"));
  EXPECT_THAT(table, HasSubstr("\nb\n  fused/f32/1      2.00 ms\n"));
}

TEST(StudentT, EqualsPublishedQuantiles) {
  EXPECT_NEAR(student_t(0.95, 1), 12.7062, 1e-3);
  EXPECT_NEAR(student_t(0.95, 4), 2.77645, 1e-4);
  EXPECT_NEAR(student_t(0.99, 2), 9.92484, 1e-3);
  EXPECT_NEAR(student_t(0.99, 2.5), 7.16373, 1e-3);
  EXPECT_NEAR(student_t(0.99, 8), 3.35539, 1e-4);
  EXPECT_NEAR(student_t(0.5, 3), 0.764892, 1e-4);
}

// The figures are those of another implementation of Welch's interval on the logarithms.
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

TEST(Verdict, FallsWhereTheIntervalLeavesOutOne) {
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

TEST(Verdict, IsTakenFromSamplesWithoutAnyScatter) {
  EXPECT_EQ(verdict_on({100, 100}, {101, 101}), Verdict::slower);
  EXPECT_EQ(verdict_on({100, 100}, {100, 100}), Verdict::no_difference);
}

TEST(Verdict, IsForBenchesThatBothRunsHave) {
  const auto comparisons = compare(parsed(run_of("gone/fused/f32/1", {1, 2})),
                                   parsed(run_of("new/fused/f32/1", {1, 2})));
  EXPECT_THAT(comparisons, SizeIs(0));
}

TEST(Verdict, ReadsAsASentence) {
  EXPECT_EQ(verdict_text({"a", Verdict::faster, {0.9, 0.85, 0.95}}), "10.0 % faster (5.0 to 15.0)");
  EXPECT_EQ(verdict_text({"a", Verdict::slower, {1.2, 1.1, 1.3}}), "20.0 % slower (10.0 to 30.0)");
  EXPECT_EQ(verdict_text({"a", Verdict::no_difference, {1, 0.99, 1.02}}),
            "no difference (-1.0 to +2.0 %)");
  EXPECT_EQ(verdict_text({"a", Verdict::too_few, {1.5, 0, 0}}),
            "+50.0 %, too few repetitions to tell");
}

TEST(MachineChange, TellsOfAnotherDeviceAndOfCeilingsThatMoved) {
  json before = file_of({}), after = file_of({});
  EXPECT_THAT(machine_change(parsed(before), parsed(after)), SizeIs(0));
  after["context"]["device"] = "another";
  after["context"]["ceiling_fma_gflops"] = "180";
  after["context"]["ceiling_copy_gbps"] = "20.5";  // within a twentieth
  EXPECT_THAT(machine_change(parsed(before), parsed(after)),
              ElementsAre("the device was 'a <fast> & small device' and is 'another'",
                          "the machine's own f32 peak is 0.90 of what it was"));
}

// Every element is closed, in order; nothing but elements, text and the five entities of XML.
void expect_well_formed(const std::string& page) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z][a-z0-9]*)((?: [a-zA-Z0-9-]+=\"[^\"<>]*\")*)(/?)>");
  std::size_t end = page.find('\n') + 1;  // behind the doctype
  const auto expect_text = [](const std::string& text) {
    EXPECT_EQ(text.find_first_of("<>"), std::string::npos) << text;
    EXPECT_TRUE(std::regex_match(text, std::regex("([^&]|&(amp|lt|gt|quot);)*"))) << text;
  };
  for (std::sregex_iterator at(page.begin() + static_cast<std::ptrdiff_t>(end), page.end(), tag);
       at != std::sregex_iterator(); ++at) {
    const auto begin = page.size() - static_cast<std::size_t>(at->suffix().length()) -
                       static_cast<std::size_t>(at->length());
    if (open.empty() || open.back() != "style") expect_text(page.substr(end, begin - end));
    end = begin + static_cast<std::size_t>(at->length());
    const std::string name = (*at)[2];
    if ((*at)[1] == "/") {
      ASSERT_FALSE(open.empty()) << name;
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    } else if ((*at)[4] == "") {
      open.push_back(name);
    }
  }
  EXPECT_THAT(open, SizeIs(0));
  EXPECT_EQ(page.substr(end), "\n");
}

std::string page_of(const json& old_file, const json& new_file) {
  const BenchResults results = parsed(new_file);
  const auto comparisons = compare(parsed(old_file), results);
  const std::vector<std::string> notes{"it was <slower> & hotter"};
  return bench_page({results, comparisons, notes});
}

json many_rows() {
  std::vector<json> entries;
  for (const double us : {90, 93, 88, 91, 89}) {
    entries.push_back(repetition("a/fused/f32/1", us, 50));
    entries.push_back(repetition("a/composed/f32/1", 2 * us, 25));
    entries.push_back(repetition("launch/replay", us));
  }
  entries.push_back({{"name", "b/fused/f32/1"},
                     {"run_type", "iteration"},
                     {"error_occurred", true},
                     {"error_message", "1 < 2 & \"so\" on"}});
  return file_of(entries);
}

TEST(BenchPage, IsWellFormedAndFetchesNothing) {
  const std::string page = page_of(run_of("a/fused/f32/1", {100, 102, 98, 101, 99}), many_rows());
  expect_well_formed(page);
  for (const char* outside : {"http", "src=", "url(", "@import", "<script", "<link", "<img"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  const std::regex link("href=\"([^\"]*)\"");
  for (std::sregex_iterator at(page.begin(), page.end(), link); at != std::sregex_iterator();
       ++at) {
    EXPECT_EQ((*at)[1].str().front(), '#') << (*at)[1];
    EXPECT_THAT(page, HasSubstr("id=\"" + (*at)[1].str().substr(1) + "\""));
  }
}

TEST(BenchPage, ReadsInLightAndDark) {
  EXPECT_THAT(
      page_of(file_of({}), many_rows()),
      AllOf(HasSubstr("@media (prefers-color-scheme: dark)"), HasSubstr("content=\"light dark\"")));
}

TEST(BenchPage, ShowsEveryRowTheVerdictsAndTheMachine) {
  const std::string page = page_of(run_of("a/fused/f32/1", {100, 102, 98, 101, 99}), many_rows());
  for (const char* text :
       {"a &lt;fast&gt; &amp; small device", "200 GFLOP/s", "commit 0123456789ab",
        "<td>a/fused/f32/1</td>", "<td>a/composed/f32/1</td>", "<td>launch/replay</td>",
        "1 &lt; 2 &amp; &quot;so&quot; on", "1 faster, 0 slower", "9.8 % faster",
        "it was &lt;slower&gt; &amp; hotter", "2.00 × the fused time"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(BenchPage, OfNothingIsStillAPage) { expect_well_formed(page_of(file_of({}), file_of({}))); }

TEST(BenchCharts, DrawSharesWhereAllAreKnownAndTimesElse) {
  const auto chart = [](const std::vector<json>& entries) {
    return rows_chart(parsed(file_of(entries)).rows);
  };
  EXPECT_THAT(chart({repetition("a/fused/f32/1", 5, 50), repetition("a/fused/f32/2", 5, 80)}),
              HasSubstr(">100 %<"));
  const std::string times = chart({repetition("a/fused/f32/1", 5, 50), repetition("a/x", 40)});
  EXPECT_THAT(times, AllOf(HasSubstr(">40.0 us<"), Not(HasSubstr(">100 %<"))));
  // The whole width of 320 for the longest, an eighth of it for the other.
  EXPECT_THAT(times, AllOf(HasSubstr("width=\"320.0\""), HasSubstr("width=\"40.0\"")));
}

class BenchProgram : public testing::Test {
 protected:
  std::filesystem::path write_program(const std::filesystem::path& file, const std::string& body) {
    std::filesystem::create_directories(file.parent_path());
    test::write_whole_file(file, "#!/bin/sh\n" + body);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
  test::TemporaryFolder folder;
};

TEST_F(BenchProgram, IsFoundBesideThisOneThenInTheBuildTreeThenInPath) {
  const auto path = write_program(folder / "path/clora_bench", "");
  const std::string places = ":/nowhere:" + (folder / "path").string();
  const auto own = folder / "build/tools";
  EXPECT_EQ(find_bench_program(own, places), path);
  const auto built = write_program(folder / "build/bench/clora_bench", "");
  EXPECT_EQ(find_bench_program(own, places), built);
  const auto beside = write_program(own / "clora_bench", "");
  EXPECT_EQ(find_bench_program(own, places), beside);
}

TEST_F(BenchProgram, ThatIsNotThereIsAnErrorThatTellsHowToBuildIt) {
  std::filesystem::create_directories(folder / "clora_bench");  // a folder is no program
  try {
    find_bench_program(folder.path(), folder.path().string());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("--target clora_bench"), HasSubstr(folder.path().string())));
  }
}

TEST_F(BenchProgram, GivesItsLinesItsErrorsAndItsExitCode) {
  const auto program =
      write_program(folder / "p", "echo \"one $1\"\necho two >&2\nprintf 'three\\n'\nexit 3\n");
  std::vector<std::string> lines;
  const int code =
      run_bench_program({program, {"a b"}, folder / "errors", [&](std::string_view line) {
                           lines.emplace_back(line);
                         }});
  EXPECT_EQ(code, 3);
  EXPECT_THAT(lines, ElementsAre("one a b", "three"));
  EXPECT_EQ(test::read_whole_file(folder / "errors"), "two\n");
}

// The program clora beside a clora_bench that lists two benches and writes what was measured
// before.
class BenchCommand : public BenchProgram {
 protected:
  BenchCommand() {
    std::filesystem::copy_file(test::built_program("tools/clora"), folder / "clora");
    test::write_whole_file(folder / "measured.json", many_rows().dump());
    put_bench("cp \"$(dirname \"$0\")/measured.json\" \"$out\"\n");
  }
  void put_bench(const std::string& measure) {
    write_program(folder / "clora_bench", R"(
dir=$(dirname "$0")
printf '%s\n' "$@" >> "$dir/arguments.txt"
for argument in "$@"; do
  case $argument in
    --benchmark_list_tests) echo a/fused/f32/1/manual_time; echo launch/replay; exit 0 ;;
    --benchmark_out=*) out=${argument#--benchmark_out=} ;;
  esac
done
echo "a/fused/f32/1/manual_time       90 us"
echo "a/fused/f32/1/manual_time       91 us"
echo "a/fused/f32/1/manual_time_mean  90 us"
echo "launch/replay/iterations:1/manual_time  2 us"
)" + measure);
  }
  ProgramResult run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "bench");
    return test::run_program(folder / "clora", {.arguments = std::move(arguments)});
  }
  std::string at(const char* name) const { return (folder / name).string(); }
};

TEST_F(BenchCommand, RunsTheBenchesAndShowsATable) {
  std::filesystem::remove(folder / "arguments.txt");
  const ProgramResult result = run({"--filter", "a|launch", "--quick", "--out", at("out.json")});
  EXPECT_EQ(result.exit_code, 1) << result.err;  // one bench failed
  EXPECT_THAT(result.out, AllOf(HasSubstr("a <fast> & small device"), HasSubstr("fused/f32/1"),
                                HasSubstr("90.0 us"), HasSubstr("████▉"), HasSubstr("49%")));
  EXPECT_THAT(result.out, AllOf(HasSubstr("bench 1/2  a/fused/f32/1"),
                                HasSubstr("bench 2/2  launch/replay"), Not(HasSubstr("3/2"))));
  EXPECT_EQ(test::read_whole_file(folder / "out.json"), many_rows().dump());
  EXPECT_THAT(
      test::read_whole_file(folder / "arguments.txt"),
      AllOf(HasSubstr("--benchmark_filter=a|launch\n"), HasSubstr("--benchmark_repetitions=5\n"),
            HasSubstr("--benchmark_min_time=0.02\n")));
}

TEST_F(BenchCommand, SaysWhyTheBenchesEnded) {
  put_bench("echo 'no OpenCL device' >&2\nexit 1\n");
  const ProgramResult result = run({"--out", at("out.json")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("exit code 1"), HasSubstr("no OpenCL device")));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.json"));
}

TEST_F(BenchCommand, EndsTheBenchesAtCtrlCAndLeavesNothingBehind) {
  put_bench("exec sleep 60\n");
  std::filesystem::create_directory(folder / "tmp");
  const auto begin = std::chrono::steady_clock::now();
  const ProgramResult result =
      test::run_program(folder / "clora", {.arguments = {"bench", "--out", at("out.json")},
                                           .environment = {"TMPDIR=" + at("tmp")},
                                           .interrupt_after = "bench 2/2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("clora bench: stopped"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.json"));
}

TEST_F(BenchCommand, ComparesWithAnOlderRunAndWritesAPage) {
  test::write_whole_file(folder / "old.json",
                         run_of("a/fused/f32/1", {100, 102, 98, 101, 99}).dump());
  const ProgramResult result =
      run({"--results", at("measured.json"), "--compare", at("old.json"), "--html", at("r.html")});
  EXPECT_THAT(result.out, HasSubstr("9.8 % faster (6.1 to 13.4)"));
  const std::string page = test::read_whole_file(folder / "r.html");
  expect_well_formed(page);
  EXPECT_THAT(page, HasSubstr("9.8 % faster (6.1 to 13.4)"));
}

TEST_F(BenchCommand, SaysTheSameAsJson) {
  test::write_whole_file(folder / "old.json",
                         run_of("a/fused/f32/1", {100, 102, 98, 101, 99}).dump());
  const std::vector<json> lines =
      run({"--results", at("measured.json"), "--compare", at("old.json"), "--json"}).json_lines();
  ASSERT_THAT(lines, SizeIs(5));
  EXPECT_EQ(lines[0].at("event"), "machine");
  EXPECT_EQ(lines[0].at("commit"), "0123456789ab");
  EXPECT_EQ(lines[1].at("name"), "a/fused/f32/1");
  EXPECT_EQ(lines[1].at("median_us"), 90);
  EXPECT_EQ(lines[1].at("verdict"), "faster");
  EXPECT_THAT(lines[1].at("interval").at(1).get<double>(), DoubleNear(0.939411, 1e-5));
  EXPECT_FALSE(lines[2].contains("verdict"));
  EXPECT_EQ(lines[4].at("error"), "1 < 2 & \"so\" on");
}

TEST_F(BenchCommand, RefusesAFileThatIsNoneBeforeItMeasures) {
  test::write_whole_file(folder / "old.json", "no JSON");
  std::filesystem::remove(folder / "arguments.txt");
  const ProgramResult result = run({"--compare", at("old.json")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("old.json' must be the JSON"));
  EXPECT_FALSE(std::filesystem::exists(folder / "arguments.txt"));
}

}  // namespace
}  // namespace clora
