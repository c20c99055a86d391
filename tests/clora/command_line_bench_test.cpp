// clora bench with a clora_bench that measures nothing: finding it, running it, interrupting it,
// and showing its results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/bench_results_by_hand.hpp"
#include "tests/support/html_checks.hpp"
#include "tests/support/program.hpp"
#include "tests/support/test_files.hpp"
#include "tools/clora/bench/bench_program.hpp"

namespace clora {
namespace {

using nlohmann::json;
using test::expect_well_formed;
using test::many_rows;
using test::ProgramResult;
using test::run_of;
using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class BenchProgram : public testing::Test {
 protected:
  std::filesystem::path write_program(const std::filesystem::path& file, const std::string& body) {
    std::filesystem::create_directories(file.parent_path());
    test::write_file(file, "#!/bin/sh\n" + body);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
  test::TemporaryFolder folder;
};

TEST_F(BenchProgram, IsFoundNextToThisOneThenInTheBuildTreeThenInPath) {
  const auto path = write_program(folder / "path/clora_bench", "");
  const std::string search_path = ":/nowhere:" + (folder / "path").string();
  const auto own = folder / "build/tools";
  EXPECT_EQ(find_bench_program(own, search_path), path);
  const auto built = write_program(folder / "build/bench/clora_bench", "");
  EXPECT_EQ(find_bench_program(own, search_path), built);
  const auto neighbour = write_program(own / "clora_bench", "");
  EXPECT_EQ(find_bench_program(own, search_path), neighbour);
}

TEST_F(BenchProgram, ThatIsMissingIsAnErrorThatExplainsHowToBuildIt) {
  std::filesystem::create_directories(folder / "clora_bench");  // a folder is not a program
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
  EXPECT_EQ(test::read_file(folder / "errors"), "two\n");
}

// The program clora next to a clora_bench that lists two benches and writes stored results.
class BenchCommand : public BenchProgram {
 protected:
  BenchCommand() {
    std::filesystem::copy_file(test::built_program("tools/clora"), folder / "clora");
    test::write_file(folder / "measured.json", many_rows().dump());
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
  EXPECT_EQ(test::read_file(folder / "out.json"), many_rows().dump());
  EXPECT_THAT(
      test::read_file(folder / "arguments.txt"),
      AllOf(HasSubstr("--benchmark_filter=a|launch\n"), HasSubstr("--benchmark_repetitions=5\n"),
            HasSubstr("--benchmark_min_time=0.02\n")));
}

// Google Benchmark writes NaN as the mean of a counter that a bench lacks.
TEST_F(BenchCommand, ShowsAndWritesResultsThatHoldNotANumber) {
  std::string measured = many_rows().dump();
  const std::string_view first = "\"benchmarks\":[";
  measured.insert(measured.find(first) + first.size(),
                  R"({"name":"a/fused/f32/1_cv","run_type":"aggregate",
      "real_time":NaN,"gflops":-NaN,"gbps":Infinity,"note":"NaN \"inf\" -Infinity"},)");
  test::write_file(folder / "measured.json", measured);
  const ProgramResult result = run({"--out", at("out.json")});
  EXPECT_EQ(result.exit_code, 1) << result.err;  // one bench failed, as in the other tests
  EXPECT_THAT(result.out, HasSubstr("90.0 us"));
  const json written = json::parse(test::read_file(folder / "out.json"));
  const json& mean = written.at("benchmarks").front();
  EXPECT_TRUE(mean.at("real_time").is_null());
  EXPECT_TRUE(mean.at("gflops").is_null());
  EXPECT_EQ(mean.at("note"), "NaN \"inf\" -Infinity");
}

TEST_F(BenchCommand, NamesABenchWithoutATime) {
  std::string measured = run_of("a/fused/f32/1", {100, 102}).dump();
  const std::string_view time = "\"median_us\":";
  measured.insert(measured.find(time) + time.size(), 1, '-');
  test::write_file(folder / "measured.json", measured);
  const ProgramResult result = run({"--results", at("measured.json")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("its time is not a number above 0"));
}

TEST_F(BenchCommand, ResultsNestedFiftyThousandDeepAreAnErrorThatNamesTheFile) {
  test::write_file(folder / "deep.json", std::string(50000, '['));
  const ProgramResult result = run({"--results", at("deep.json")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("deep.json"), Not(HasSubstr("json.exception"))));
}

TEST_F(BenchCommand, ReportsWhyTheBenchesEnded) {
  put_bench("echo 'no OpenCL device' >&2\nexit 1\n");
  const ProgramResult result = run({"--out", at("out.json")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("exit code 1"), HasSubstr("no OpenCL device")));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.json"));
}

TEST_F(BenchCommand, EndsTheBenchesAtCtrlCAndLeavesNoFiles) {
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
  test::write_file(folder / "old.json", run_of("a/fused/f32/1", {100, 102, 98, 101, 99}).dump());
  const ProgramResult result =
      run({"--results", at("measured.json"), "--compare", at("old.json"), "--html", at("r.html")});
  EXPECT_THAT(result.out, HasSubstr("9.8 % faster (6.1 to 13.4)"));
  const std::string page = test::read_file(folder / "r.html");
  expect_well_formed(page);
  EXPECT_THAT(page, HasSubstr("9.8 % faster (6.1 to 13.4)"));
}

TEST_F(BenchCommand, SaysTheSameAsJson) {
  test::write_file(folder / "old.json", run_of("a/fused/f32/1", {100, 102, 98, 101, 99}).dump());
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

TEST_F(BenchCommand, RefusesAnInvalidFileBeforeItMeasures) {
  test::write_file(folder / "old.json", "no JSON");
  std::filesystem::remove(folder / "arguments.txt");
  const ProgramResult result = run({"--compare", at("old.json")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("old.json' must be JSON"));
  EXPECT_FALSE(std::filesystem::exists(folder / "arguments.txt"));
}

// The device is real, the benches are not.
TEST_F(BenchCommand, WritesAReportForAnIssue) {
  const test::ProgramResult result =
      test::run_program(folder / "clora", {.arguments = {"bench", "--report", at("report.json")},
                                           .environment = {"CLORA_CACHE_DIR=" + at("cache")}});
  EXPECT_EQ(result.exit_code, 1) << result.err;  // one bench failed, as in the other tests
  EXPECT_THAT(test::read_file(folder / "arguments.txt"),
              AllOf(HasSubstr("--benchmark_filter=^(gemm|"), HasSubstr("min_time=0.02\n")));
  const json report = json::parse(test::read_file(folder / "report.json"));
  EXPECT_EQ(report.at("report"), 1);
  for (const char* field :
       {"name", "vendor", "platform", "driver", "kind", "matrix_unit", "integer_dots", "variant"}) {
    EXPECT_NE(report.at("device").value(field, ""), "") << field;
  }
  EXPECT_TRUE(report.at("capabilities").contains("extensions"));
  EXPECT_EQ(report.at("capabilities").at("driver"), report.at("device").at("driver"));
  EXPECT_FALSE(report.at("implementations").empty());
  // cl/matrix has no unit of a CPU.
  EXPECT_EQ(report.at("matrix_unit_self_test").is_null(), report.at("device").at("kind") == "cpu");
  EXPECT_TRUE(report.at("self_tests").empty());
  EXPECT_EQ(report.at("machine").at("peak_fma_gflops"), "200");
  EXPECT_EQ(report.at("benches").at(0).at("name"), "a/fused/f32/1");
  EXPECT_EQ(report.at("benches").at(0).at("percent_of_roofline"), 50);
  EXPECT_EQ(report.at("benches").back().at("error"), "1 < 2 & \"so\" on");
}

TEST_F(BenchCommand, ReportsTheSelfTestsOfASimulatedAmdGpu) {
  const test::ProgramResult result = test::run_program(
      folder / "clora",
      {.arguments = {"bench", "--filter", "a", "--report", at("report.json")},
       .environment = {
           "LD_PRELOAD=" + test::built_program("tests/libclora_unproven_gpu.so").string(),
           "CLORA_SELF_TEST=1", "CLORA_VARIANT=automatic", "CLORA_DEVICE=gfx90a",
           "CLORA_CACHE_DIR=" + at("cache")}});
  EXPECT_THAT(result.err, HasSubstr("clora bench --report FILE"));
  const json report = json::parse(test::read_file(folder / "report.json"));
  EXPECT_EQ(report.at("device").at("matrix_unit"), "mfma");
  EXPECT_EQ(report.at("device").at("variant"), "matrix");
  EXPECT_EQ(report.at("matrix_unit_self_test"), "failed");
  ASSERT_EQ(report.at("self_tests").size(), 1U);
  const json& test = report.at("self_tests").at(0);
  EXPECT_EQ(test.at("kernel"), "matrix_unit");
  EXPECT_THAT(test.at("options"), HasSubstr("MFMA"));
  EXPECT_EQ(test.at("outcome"), "failed");
  EXPECT_THAT(test.at("complaint"), HasSubstr("matrix_unit_check.cl"));
}

}  // namespace
}  // namespace clora
